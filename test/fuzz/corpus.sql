-- The corpus of the fuzzer, tried in a server by the functions themselves: broken(kind, content) says what does not hold, in words, and
-- "taken" if all holds and the input was a good one.
SET client_min_messages = warning;
CREATE EXTENSION extaction CASCADE;
SELECT extaction.create_scope('shop');
INSERT INTO extaction.actions (action, provider, operation, self_approval) VALUES ('post', 'acme', 'post', true);

CREATE TABLE corpus (name text, kind text, content text, said text);

CREATE PROCEDURE load(dir text) LANGUAGE plpgsql AS $$
DECLARE
    file text;
    content text;
BEGIN
    FOR file IN SELECT pg_ls_dir(dir) LOOP
        BEGIN
            content := convert_from(pg_read_binary_file(dir || '/' || file), 'UTF8');
            INSERT INTO corpus VALUES (file, left(content, 1), substr(content, 2));
        EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
            NULL;           -- what no function would ever see
        END;
    END LOOP;
END $$;

CREATE FUNCTION try_json(content text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    document jsonb := extaction.strict_json(content);
    canonical text := extaction.canonical(document);
BEGIN
    RETURN CASE WHEN canonical::jsonb IS DISTINCT FROM document THEN 'the canonical text is another document'
                WHEN extaction.canonical(canonical::jsonb) <> canonical THEN 'the canonical text is not its own'
                WHEN extaction.strict_json(canonical) <> document THEN 'strict_json does not take the canonical text'
                WHEN extaction.digest(document) <> sha256(convert_to(canonical, 'UTF8')) THEN 'the digest is another'
                ELSE 'taken' END;
END $$;

-- Two documents: one intent with both is a conflict if and only if they are not the same.
CREATE FUNCTION try_pair(content text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one jsonb := split_part(content, E'\n', 1);
    other jsonb := substr(content, strpos(content, E'\n') + 1);
    id text := md5(content);
    answer extaction.receipt;
BEGIN
    PERFORM extaction.approve_in_advance('shop', id, 'post', 'x', one);
    PERFORM extaction.submit('shop', id, 'post', 'x', one);
    answer := extaction.submit('shop', id, 'post', 'x', other);
    PERFORM convert_from(textsend(answer.needs), 'UTF8');
    RETURN CASE WHEN answer.status <> CASE WHEN one = other THEN 'replayed' ELSE 'conflict' END THEN 'answered ' || answer.status ELSE 'taken' END;
END $$;

CREATE FUNCTION broken(kind text, content text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    said text := 'taken';
BEGIN
    CASE kind
        WHEN 'j' THEN said := try_json(content);
        WHEN 'n' THEN said := CASE WHEN extaction.canonical(content::jsonb)::numeric <> content::numeric THEN 'another value' ELSE 'taken' END;
        WHEN 't' THEN PERFORM extaction.approve_fake_task('shop', content::jsonb);
        WHEN 'c' THEN PERFORM extaction.contract_step(content::jsonb -> 0, content::jsonb -> 1);
        WHEN 'a' THEN PERFORM extaction.find('shop', content);
        WHEN 'h' THEN PERFORM extaction.approve('shop', content);
        WHEN 'p' THEN said := try_pair(content);
        ELSE said := 'nothing';
    END CASE;
    RETURN said;
EXCEPTION WHEN OTHERS THEN
    RETURN CASE WHEN sqlstate ~ '^XX' THEN sqlerrm
                WHEN kind = 'h' AND sqlstate = '42704' THEN 'taken'        -- a digest, but of nothing that waits
                ELSE sqlstate END;
END $$;
