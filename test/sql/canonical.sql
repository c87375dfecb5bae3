--
-- Canonical JSON (RFC 8785), digests, the idempotency key, strict_json
--
SET client_encoding = 'UTF8';
SET max_parallel_workers_per_gather = 0;
SET client_min_messages = warning;

CREATE TEMP TABLE vector (input text, expected text);
CREATE TEMP TABLE refused (input text);

-- the texts of a JavaScript engine; kept out of the answer for its length
\set ECHO none
-- made by test/vectors/make-vectors.mjs: begin
INSERT INTO vector (input, expected) VALUES
($v${"numbers":[333333333.3333333,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}$v$, $v${"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}$v$),
($v${"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}$v$, $v${"\r":"Carriage Return","1":"One","":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","דּ":"Hebrew Letter Dalet With Dagesh"}$v$),
($v${"v":"extaction.request.v1","scope":"shop","intent_id":"order-7/receipt","action":"send_mail","candidate":null,"destination":"ada@example.org","payload":{"z":null,"subject":"Quittung \u00e9 \ud83d\ude00","n":1e21,"small":0.0000001,"list":[2,1],"total":120.10}}$v$, $v${"action":"send_mail","candidate":null,"destination":"ada@example.org","intent_id":"order-7/receipt","payload":{"list":[2,1],"n":1e+21,"small":1e-7,"subject":"Quittung é 😀","total":120.1,"z":null},"scope":"shop","v":"extaction.request.v1"}$v$),
($v$null$v$, $v$null$v$),
($v$true$v$, $v$true$v$),
($v$false$v$, $v$false$v$),
($v$""$v$, $v$""$v$),
($v$[]$v$, $v$[]$v$),
($v${}$v$, $v${}$v$),
($v$[[]]$v$, $v$[[]]$v$),
($v$[{}]$v$, $v$[{}]$v$),
($v${"":{}}$v$, $v${"":{}}$v$),
($v${"":{"":[]}}$v$, $v${"":{"":[]}}$v$),
($v$[[],[[]],{"a":[]}]$v$, $v$[[],[[]],{"a":[]}]$v$),
($v$[null]$v$, $v$[null]$v$),
($v${"a":null}$v$, $v${"a":null}$v$),
($v${"a":null,"b":{"a":null}}$v$, $v${"a":null,"b":{"a":null}}$v$),
($v$[1,[2,[3,[4]]]]$v$, $v$[1,[2,[3,[4]]]]$v$),
($v$[3,1,2]$v$, $v$[3,1,2]$v$),
($v$[true,false,null]$v$, $v$[true,false,null]$v$),
($v${"b":1,"aa":2,"a":3,"":4}$v$, $v${"":4,"a":3,"aa":2,"b":1}$v$),
($v${"aaa":1,"b":2,"AA":3,"B":4,"_":5,"10":6,"9":7}$v$, $v${"10":6,"9":7,"AA":3,"B":4,"_":5,"aaa":1,"b":2}$v$),
($v${"abcdefgh":1,"abcdefg":2,"abcdefghi":3,"abcdefghA":4}$v$, $v${"abcdefg":2,"abcdefgh":1,"abcdefghA":4,"abcdefghi":3}$v$),
($v${"abcdefghij":1,"abcdefgh\u00e9":2,"abcdefgh":3}$v$, $v${"abcdefgh":3,"abcdefghij":1,"abcdefghé":2}$v$),
($v${"\ufb33":1,"\ud83d\ude02":2}$v$, $v${"😂":2,"דּ":1}$v$),
($v${"\ue000":1,"\uffff":2,"\ud800\udc00":3,"\udbff\udfff":4,"\ud7ff":5}$v$, $v${"퟿":5,"𐀀":3,"􏿿":4,"":1,"￿":2}$v$),
($v${"12345678\ufb33":1,"12345678\ud83d\ude02":2}$v$, $v${"12345678😂":2,"12345678דּ":1}$v$),
($v${"1234567\ufb33":1,"1234567\ud83d\ude02":2}$v$, $v${"1234567😂":2,"1234567דּ":1}$v$),
($v${"\ufb33a":1,"\ufb33":2,"\ud83d\ude02a":3,"\ud83d\ude02":4,"z":5}$v$, $v${"z":5,"😂":4,"😂a":3,"דּ":2,"דּa":1}$v$),
($v${"e\u0301":"e\u0301","\u00e9":"\u00e9"}$v$, $v${"é":"é","é":"é"}$v$),
($v$"\u212b\u00c5A\u030a"$v$, $v$"ÅÅÅ"$v$),
($v$"\b\t\n\f\r\"\\\/"$v$, $v$"\b\t\n\f\r\"\\/"$v$),
($v$"\u2028\u2029\ufeff\ufffd\u007f\u0080\u00a0"$v$, $v$"  ﻿� "$v$),
($v$"/<>&'"$v$, $v$"/<>&'"$v$),
($v$"\ud83d\ude00 \ud834\udd1e"$v$, $v$"😀 𝄞"$v$),
($v$"\u001f\u0020\u0021\u0022\u0023\u005b\u005c\u005d"$v$, $v$"\u001f !\"#[\\]"$v$),
($v$"12345678\n12345678\"2345678\\1234567\u0001"$v$, $v$"12345678\n12345678\"2345678\\1234567\u0001"$v$),
($v$"1234567\u0007"$v$, $v$"1234567\u0007"$v$),
($v$"123456789012345\u000f"$v$, $v$"123456789012345\u000f"$v$),
($v${"line\nbreak":{"\"":{"\\":{"\u0001":0}}}}$v$, $v${"line\nbreak":{"\"":{"\\":{"\u0001":0}}}}$v$),
($v$"\u0001"$v$, $v$"\u0001"$v$),
($v$"\u0002"$v$, $v$"\u0002"$v$),
($v$"\u0003"$v$, $v$"\u0003"$v$),
($v$"\u0004"$v$, $v$"\u0004"$v$),
($v$"\u0005"$v$, $v$"\u0005"$v$),
($v$"\u0006"$v$, $v$"\u0006"$v$),
($v$"\u0007"$v$, $v$"\u0007"$v$),
($v$"\u0008"$v$, $v$"\b"$v$),
($v$"\u0009"$v$, $v$"\t"$v$),
($v$"\u000a"$v$, $v$"\n"$v$),
($v$"\u000b"$v$, $v$"\u000b"$v$),
($v$"\u000c"$v$, $v$"\f"$v$),
($v$"\u000d"$v$, $v$"\r"$v$),
($v$"\u000e"$v$, $v$"\u000e"$v$),
($v$"\u000f"$v$, $v$"\u000f"$v$),
($v$"\u0010"$v$, $v$"\u0010"$v$),
($v$"\u0011"$v$, $v$"\u0011"$v$),
($v$"\u0012"$v$, $v$"\u0012"$v$),
($v$"\u0013"$v$, $v$"\u0013"$v$),
($v$"\u0014"$v$, $v$"\u0014"$v$),
($v$"\u0015"$v$, $v$"\u0015"$v$),
($v$"\u0016"$v$, $v$"\u0016"$v$),
($v$"\u0017"$v$, $v$"\u0017"$v$),
($v$"\u0018"$v$, $v$"\u0018"$v$),
($v$"\u0019"$v$, $v$"\u0019"$v$),
($v$"\u001a"$v$, $v$"\u001a"$v$),
($v$"\u001b"$v$, $v$"\u001b"$v$),
($v$"\u001c"$v$, $v$"\u001c"$v$),
($v$"\u001d"$v$, $v$"\u001d"$v$),
($v$"\u001e"$v$, $v$"\u001e"$v$),
($v$"\u001f"$v$, $v$"\u001f"$v$),
($v$"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9"$v$, $v$"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\néééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééééé"$v$),
($v$[-150,-149,-148,-147,-146,-145,-144,-143,-142,-141,-140,-139,-138,-137,-136,-135,-134,-133,-132,-131,-130,-129,-128,-127,-126,-125,-124,-123,-122,-121,-120,-119,-118,-117,-116,-115,-114,-113,-112,-111,-110,-109,-108,-107,-106,-105,-104,-103,-102,-101,-100,-99,-98,-97,-96,-95,-94,-93,-92,-91,-90,-89,-88,-87,-86,-85,-84,-83,-82,-81,-80,-79,-78,-77,-76,-75,-74,-73,-72,-71,-70,-69,-68,-67,-66,-65,-64,-63,-62,-61,-60,-59,-58,-57,-56,-55,-54,-53,-52,-51,-50,-49,-48,-47,-46,-45,-44,-43,-42,-41,-40,-39,-38,-37,-36,-35,-34,-33,-32,-31,-30,-29,-28,-27,-26,-25,-24,-23,-22,-21,-20,-19,-18,-17,-16,-15,-14,-13,-12,-11,-10,-9,-8,-7,-6,-5,-4,-3,-2,-1,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99,100,101,102,103,104,105,106,107,108,109,110,111,112,113,114,115,116,117,118,119,120,121,122,123,124,125,126,127,128,129,130,131,132,133,134,135,136,137,138,139,140,141,142,143,144,145,146,147,148,149]$v$, $v$[-150,-149,-148,-147,-146,-145,-144,-143,-142,-141,-140,-139,-138,-137,-136,-135,-134,-133,-132,-131,-130,-129,-128,-127,-126,-125,-124,-123,-122,-121,-120,-119,-118,-117,-116,-115,-114,-113,-112,-111,-110,-109,-108,-107,-106,-105,-104,-103,-102,-101,-100,-99,-98,-97,-96,-95,-94,-93,-92,-91,-90,-89,-88,-87,-86,-85,-84,-83,-82,-81,-80,-79,-78,-77,-76,-75,-74,-73,-72,-71,-70,-69,-68,-67,-66,-65,-64,-63,-62,-61,-60,-59,-58,-57,-56,-55,-54,-53,-52,-51,-50,-49,-48,-47,-46,-45,-44,-43,-42,-41,-40,-39,-38,-37,-36,-35,-34,-33,-32,-31,-30,-29,-28,-27,-26,-25,-24,-23,-22,-21,-20,-19,-18,-17,-16,-15,-14,-13,-12,-11,-10,-9,-8,-7,-6,-5,-4,-3,-2,-1,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79,80,81,82,83,84,85,86,87,88,89,90,91,92,93,94,95,96,97,98,99,100,101,102,103,104,105,106,107,108,109,110,111,112,113,114,115,116,117,118,119,120,121,122,123,124,125,126,127,128,129,130,131,132,133,134,135,136,137,138,139,140,141,142,143,144,145,146,147,148,149]$v$),
($v${"k0":0,"k37":1,"k74":2,"k10":3,"k47":4,"k84":5,"k20":6,"k57":7,"k94":8,"k30":9,"k67":10,"k3":11,"k40":12,"k77":13,"k13":14,"k50":15,"k87":16,"k23":17,"k60":18,"k97":19,"k33":20,"k70":21,"k6":22,"k43":23,"k80":24,"k16":25,"k53":26,"k90":27,"k26":28,"k63":29,"k100":30,"k36":31,"k73":32,"k9":33,"k46":34,"k83":35,"k19":36,"k56":37,"k93":38,"k29":39,"k66":40,"k2":41,"k39":42,"k76":43,"k12":44,"k49":45,"k86":46,"k22":47,"k59":48,"k96":49,"k32":50,"k69":51,"k5":52,"k42":53,"k79":54,"k15":55,"k52":56,"k89":57,"k25":58,"k62":59,"k99":60,"k35":61,"k72":62,"k8":63,"k45":64,"k82":65,"k18":66,"k55":67,"k92":68,"k28":69,"k65":70,"k1":71,"k38":72,"k75":73,"k11":74,"k48":75,"k85":76,"k21":77,"k58":78,"k95":79,"k31":80,"k68":81,"k4":82,"k41":83,"k78":84,"k14":85,"k51":86,"k88":87,"k24":88,"k61":89,"k98":90,"k34":91,"k71":92,"k7":93,"k44":94,"k81":95,"k17":96,"k54":97,"k91":98,"k27":99}$v$, $v${"k0":0,"k1":71,"k10":3,"k100":30,"k11":74,"k12":44,"k13":14,"k14":85,"k15":55,"k16":25,"k17":96,"k18":66,"k19":36,"k2":41,"k20":6,"k21":77,"k22":47,"k23":17,"k24":88,"k25":58,"k26":28,"k27":99,"k28":69,"k29":39,"k3":11,"k30":9,"k31":80,"k32":50,"k33":20,"k34":91,"k35":61,"k36":31,"k37":1,"k38":72,"k39":42,"k4":82,"k40":12,"k41":83,"k42":53,"k43":23,"k44":94,"k45":64,"k46":34,"k47":4,"k48":75,"k49":45,"k5":52,"k50":15,"k51":86,"k52":56,"k53":26,"k54":97,"k55":67,"k56":37,"k57":7,"k58":78,"k59":48,"k6":22,"k60":18,"k61":89,"k62":59,"k63":29,"k65":70,"k66":40,"k67":10,"k68":81,"k69":51,"k7":93,"k70":21,"k71":92,"k72":62,"k73":32,"k74":2,"k75":73,"k76":43,"k77":13,"k78":84,"k79":54,"k8":63,"k80":24,"k81":95,"k82":65,"k83":35,"k84":5,"k85":76,"k86":46,"k87":16,"k88":87,"k89":57,"k9":33,"k90":27,"k91":98,"k92":68,"k93":38,"k94":8,"k95":79,"k96":49,"k97":19,"k98":90,"k99":60}$v$),
($v$0$v$, $v$0$v$),
($v$5e-324$v$, $v$5e-324$v$),
($v$-5e-324$v$, $v$-5e-324$v$),
($v$1.7976931348623157e+308$v$, $v$1.7976931348623157e+308$v$),
($v$-1.7976931348623157e+308$v$, $v$-1.7976931348623157e+308$v$),
($v$9007199254740992$v$, $v$9007199254740992$v$),
($v$-9007199254740992$v$, $v$-9007199254740992$v$),
($v$295147905179352830000$v$, $v$295147905179352830000$v$),
($v$9.999999999999997e+22$v$, $v$9.999999999999997e+22$v$),
($v$1e+23$v$, $v$1e+23$v$),
($v$1.0000000000000001e+23$v$, $v$1.0000000000000001e+23$v$),
($v$999999999999999700000$v$, $v$999999999999999700000$v$),
($v$999999999999999900000$v$, $v$999999999999999900000$v$),
($v$1e+21$v$, $v$1e+21$v$),
($v$9.999999999999997e-7$v$, $v$9.999999999999997e-7$v$),
($v$0.000001$v$, $v$0.000001$v$),
($v$333333333.3333332$v$, $v$333333333.3333332$v$),
($v$333333333.33333325$v$, $v$333333333.33333325$v$),
($v$333333333.3333333$v$, $v$333333333.3333333$v$),
($v$333333333.3333334$v$, $v$333333333.3333334$v$),
($v$333333333.33333343$v$, $v$333333333.33333343$v$),
($v$-0.0000033333333333333333$v$, $v$-0.0000033333333333333333$v$),
($v$1424953923781206.2$v$, $v$1424953923781206.2$v$),
($v$-0$v$, $v$0$v$),
($v$-0.0$v$, $v$0$v$),
($v$0e5$v$, $v$0$v$),
($v$1.0$v$, $v$1$v$),
($v$1.50$v$, $v$1.5$v$),
($v$120.10$v$, $v$120.1$v$),
($v$1E2$v$, $v$100$v$),
($v$1e+2$v$, $v$100$v$),
($v$100e-2$v$, $v$1$v$),
($v$0.1e1$v$, $v$1$v$),
($v$-1e0$v$, $v$-1$v$),
($v$1e20$v$, $v$100000000000000000000$v$),
($v$1e21$v$, $v$1e+21$v$),
($v$123456789012345680000$v$, $v$123456789012345680000$v$),
($v$1234567890123456800000$v$, $v$1.2345678901234568e+21$v$),
($v$1e-6$v$, $v$0.000001$v$),
($v$1e-7$v$, $v$1e-7$v$),
($v$0.0000012$v$, $v$0.0000012$v$),
($v$0.00000012$v$, $v$1.2e-7$v$),
($v$999999999999999$v$, $v$999999999999999$v$),
($v$1e15$v$, $v$1000000000000000$v$),
($v$123456789012345$v$, $v$123456789012345$v$),
($v$0.123456789012345$v$, $v$0.123456789012345$v$),
($v$-0.000001$v$, $v$-0.000001$v$),
($v$-1e-7$v$, $v$-1e-7$v$),
($v$1e-323$v$, $v$1e-323$v$),
($v$2.2250738585072014e-308$v$, $v$2.2250738585072014e-308$v$),
($v$1e-308$v$, $v$1e-308$v$),
($v$1.7976931348623157e308$v$, $v$1.7976931348623157e+308$v$),
($v$1.797693134862315e308$v$, $v$1.797693134862315e+308$v$),
($v$1e308$v$, $v$1e+308$v$),
($v$9007199254740991$v$, $v$9007199254740991$v$),
($v$0.1$v$, $v$0.1$v$),
($v$0.3$v$, $v$0.3$v$),
($v$0.30000000000000004$v$, $v$0.30000000000000004$v$),
($v$3.141592653589793$v$, $v$3.141592653589793$v$),
($v$5.684341886080802e-14$v$, $v$5.684341886080802e-14$v$),
($v$18446744073709552000$v$, $v$18446744073709552000$v$),
($v$9223372036854776000$v$, $v$9223372036854776000$v$),
($v$1.5e-323$v$, $v$1.5e-323$v$),
($v$1.1125369292536e-308$v$, $v$1.1125369292536e-308$v$),
($v$1.1125369292536007e-308$v$, $v$1.1125369292536007e-308$v$),
($v$1.112536929253601e-308$v$, $v$1.112536929253601e-308$v$),
($v$2.225073858507201e-308$v$, $v$2.225073858507201e-308$v$),
($v$2.225073858507202e-308$v$, $v$2.225073858507202e-308$v$),
($v$4.4501477170144023e-308$v$, $v$4.4501477170144023e-308$v$),
($v$4.450147717014403e-308$v$, $v$4.450147717014403e-308$v$),
($v$4.450147717014404e-308$v$, $v$4.450147717014404e-308$v$),
($v$1.0020841800044863e-292$v$, $v$1.0020841800044863e-292$v$),
($v$1.0020841800044864e-292$v$, $v$1.0020841800044864e-292$v$),
($v$1.0020841800044866e-292$v$, $v$1.0020841800044866e-292$v$),
($v$3.0549363634996043e-151$v$, $v$3.0549363634996043e-151$v$),
($v$3.054936363499605e-151$v$, $v$3.054936363499605e-151$v$),
($v$3.0549363634996054e-151$v$, $v$3.0549363634996054e-151$v$),
($v$5.684341886080801e-14$v$, $v$5.684341886080801e-14$v$),
($v$5.684341886080803e-14$v$, $v$5.684341886080803e-14$v$),
($v$9.536743164062499e-7$v$, $v$9.536743164062499e-7$v$),
($v$9.5367431640625e-7$v$, $v$9.5367431640625e-7$v$),
($v$9.536743164062502e-7$v$, $v$9.536743164062502e-7$v$),
($v$9.5367431640625000e-7$v$, $v$9.5367431640625e-7$v$),
($v$0.49999999999999994$v$, $v$0.49999999999999994$v$),
($v$0.5$v$, $v$0.5$v$),
($v$0.5000000000000001$v$, $v$0.5000000000000001$v$),
($v$0.50000000000000000$v$, $v$0.5$v$),
($v$0.9999999999999999$v$, $v$0.9999999999999999$v$),
($v$1$v$, $v$1$v$),
($v$1.0000000000000002$v$, $v$1.0000000000000002$v$),
($v$1.0000000000000000$v$, $v$1$v$),
($v$1.9999999999999998$v$, $v$1.9999999999999998$v$),
($v$2$v$, $v$2$v$),
($v$2.0000000000000004$v$, $v$2.0000000000000004$v$),
($v$2.0000000000000000$v$, $v$2$v$),
($v$16777215.999999998$v$, $v$16777215.999999998$v$),
($v$16777216$v$, $v$16777216$v$),
($v$16777216.000000004$v$, $v$16777216.000000004$v$),
($v$16777216.000000000$v$, $v$16777216$v$),
($v$17592186044415.998$v$, $v$17592186044415.998$v$),
($v$17592186044416$v$, $v$17592186044416$v$),
($v$17592186044416.004$v$, $v$17592186044416.004$v$),
($v$17592186044416.000$v$, $v$17592186044416$v$),
($v$4503599627370495.5$v$, $v$4503599627370495.5$v$),
($v$4503599627370496$v$, $v$4503599627370496$v$),
($v$4503599627370497$v$, $v$4503599627370497$v$),
($v$4503599627370496.0$v$, $v$4503599627370496$v$),
($v$9007199254740994$v$, $v$9007199254740994$v$),
($v$9007199254740992.0$v$, $v$9007199254740992$v$),
($v$18014398509481982$v$, $v$18014398509481982$v$),
($v$18014398509481984$v$, $v$18014398509481984$v$),
($v$18014398509481988$v$, $v$18014398509481988$v$),
($v$36028797018963964$v$, $v$36028797018963964$v$),
($v$36028797018963970$v$, $v$36028797018963970$v$),
($v$36028797018963976$v$, $v$36028797018963976$v$),
($v$72057594037927930$v$, $v$72057594037927930$v$),
($v$72057594037927940$v$, $v$72057594037927940$v$),
($v$72057594037927950$v$, $v$72057594037927950$v$),
($v$1152921504606846800$v$, $v$1152921504606846800$v$),
($v$1152921504606847000$v$, $v$1152921504606847000$v$),
($v$1152921504606847200$v$, $v$1152921504606847200$v$),
($v$1.1529215046068470e+18$v$, $v$1152921504606847000$v$),
($v$9223372036854775000$v$, $v$9223372036854775000$v$),
($v$9223372036854778000$v$, $v$9223372036854778000$v$),
($v$18446744073709550000$v$, $v$18446744073709550000$v$),
($v$18446744073709556000$v$, $v$18446744073709556000$v$),
($v$1.8446744073709552e+19$v$, $v$18446744073709552000$v$),
($v$36893488147419100000$v$, $v$36893488147419100000$v$),
($v$36893488147419103000$v$, $v$36893488147419103000$v$),
($v$36893488147419110000$v$, $v$36893488147419110000$v$),
($v$3.6893488147419103e+19$v$, $v$36893488147419103000$v$),
($v$1.1805916207174112e+21$v$, $v$1.1805916207174112e+21$v$),
($v$1.1805916207174113e+21$v$, $v$1.1805916207174113e+21$v$),
($v$1.1805916207174116e+21$v$, $v$1.1805916207174116e+21$v$),
($v$1.5111572745182863e+23$v$, $v$1.5111572745182863e+23$v$),
($v$1.5111572745182865e+23$v$, $v$1.5111572745182865e+23$v$),
($v$1.5111572745182868e+23$v$, $v$1.5111572745182868e+23$v$),
($v$1.2676506002282293e+30$v$, $v$1.2676506002282293e+30$v$),
($v$1.2676506002282294e+30$v$, $v$1.2676506002282294e+30$v$),
($v$1.2676506002282297e+30$v$, $v$1.2676506002282297e+30$v$),
($v$5.316911983139663e+36$v$, $v$5.316911983139663e+36$v$),
($v$5.316911983139664e+36$v$, $v$5.316911983139664e+36$v$),
($v$5.316911983139665e+36$v$, $v$5.316911983139665e+36$v$),
($v$3.2733906078961415e+150$v$, $v$3.2733906078961415e+150$v$),
($v$3.273390607896142e+150$v$, $v$3.273390607896142e+150$v$),
($v$3.2733906078961426e+150$v$, $v$3.2733906078961426e+150$v$),
($v$9.979201547673598e+291$v$, $v$9.979201547673598e+291$v$),
($v$9.9792015476736e+291$v$, $v$9.9792015476736e+291$v$),
($v$9.979201547673601e+291$v$, $v$9.979201547673601e+291$v$),
($v$4.4942328371557893e+307$v$, $v$4.4942328371557893e+307$v$),
($v$4.49423283715579e+307$v$, $v$4.49423283715579e+307$v$),
($v$4.494232837155791e+307$v$, $v$4.494232837155791e+307$v$),
($v$8.988465674311579e+307$v$, $v$8.988465674311579e+307$v$),
($v$8.98846567431158e+307$v$, $v$8.98846567431158e+307$v$),
($v$8.988465674311582e+307$v$, $v$8.988465674311582e+307$v$),
($v$9007199254740996$v$, $v$9007199254740996$v$),
($v$9007199254740998$v$, $v$9007199254740998$v$),
($v$9007199254741000$v$, $v$9007199254741000$v$);
INSERT INTO refused (input) VALUES
($v$4e-324$v$),
($v$9e-324$v$),
($v$2.2250738585072011e-308$v$),
($v$1.7976931348623158e308$v$),
($v$1e309$v$),
($v$1e400$v$),
($v$1e-400$v$),
($v$1e131000$v$),
($v$9007199254740993$v$),
($v$9007199254740995$v$),
($v$0.1000000000000000055$v$),
($v$0.10000000000000001$v$),
($v$333333333.33333329$v$),
($v$1234567890123456789$v$),
($v$0.300000000000000044$v$),
($v$3.141592653589793238462643383$v$),
($v$5.6843418860808015e-14$v$),
($v$100000000000000000000001$v$),
($v$18446744073709551615$v$),
($v$9223372036854775807$v$),
($v$9223372036854775808$v$),
($v$4.9406564584124654e-324$v$),
($v$9.8813129168249309e-324$v$),
($v$4.4501477170144028e-308$v$),
($v$3.0549363634996047e-151$v$),
($v$36028797018963968$v$),
($v$72057594037927936$v$),
($v$9.2233720368547758e+18$v$),
($v$5.3169119831396635e+36$v$),
($v$3.2733906078961419e+150$v$),
($v$9.9792015476735991e+291$v$),
($v$4.4942328371557898e+307$v$),
($v$8.9884656743115795e+307$v$),
($v$144115188075855872$v$),
($v$144115188075855873$v$),
($v$9223372036854775809$v$),
($v$144115188075855874$v$),
($v$9223372036854775810$v$),
($v$144115188075855875$v$),
($v$9223372036854775811$v$),
($v$144115188075855876$v$),
($v$9223372036854775812$v$),
($v$144115188075855878$v$),
($v$9223372036854775814$v$),
($v$9007199254740999$v$),
($v$144115188075855879$v$),
($v$9223372036854775815$v$),
($v$144115188075855880$v$),
($v$9223372036854775816$v$);
-- made by test/vectors/make-vectors.mjs: end
\set ECHO all

SELECT (SELECT count(*) FROM vector) AS vectors,
       (SELECT count(*) FROM refused) AS refused;

-- what an error says to a program: SQLSTATE and path
CREATE FUNCTION pg_temp.fault(call text, document text)
RETURNS TABLE (state text, path text, message text, detail text, hint text)
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call USING document;
    message := 'no error';
    RETURN NEXT;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE,
        path = CONSTRAINT_NAME, message = MESSAGE_TEXT,
        detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
    RETURN NEXT;
END $$;

--
-- Canonical text
--

-- only what differs is shown: no rows
SELECT input, expected, extaction.canonical(input::jsonb) AS is
FROM vector
WHERE extaction.canonical(input::jsonb) IS DISTINCT FROM expected;

-- a canonical text is its own canonical text: no rows
SELECT expected FROM vector
WHERE extaction.canonical(expected::jsonb) <> expected;

-- strict_json takes every vector, and loses nothing: no rows
SELECT input FROM vector WHERE extaction.strict_json(input) <> input::jsonb;

-- equal values, equal texts; other values, other texts: no rows
SELECT a.input, b.input FROM vector a, vector b
WHERE (a.input::jsonb = b.input::jsonb) <> (a.expected = b.expected);

-- every number without an exact canonical form is refused, negative or inside a
-- document too: no rows
SELECT input, f.* FROM refused,
    unnest(ARRAY['%s', '-%s', '[%s]', '{"a":[0,{"b":%s}]}']) AS form,
    pg_temp.fault('SELECT extaction.canonical($1::jsonb)', format(form, input)) f
WHERE f.state IS DISTINCT FROM '22023';

-- the order of the members as a text
SELECT extaction.canonical('{"ﬃ": 1, "😀": 2, "é": 3, "e": 4, "ee": 5, "E": 6, "": 7}');

-- null in, null out
SELECT extaction.canonical(NULL) IS NULL AS canonical,
       extaction.digest(NULL) IS NULL AS digest,
       extaction.strict_json(NULL) IS NULL AS strict_json;

--
-- Digests
--

-- pgcrypto is the second witness: no rows
SELECT input FROM vector
WHERE extaction.digest(input::jsonb) <>
      public.digest(convert_to(extaction.canonical(input::jsonb), 'UTF8'), 'sha256');

-- also past every buffer
SELECT count(*) AS documents,
       count(*) FILTER (WHERE extaction.digest(j) <>
            public.digest(convert_to(extaction.canonical(j), 'UTF8'), 'sha256')) AS wrong
FROM (SELECT jsonb_build_object('n', n, 'long', repeat('é"', n),
                                'list', (SELECT jsonb_agg(i) FROM generate_series(1, n) i)) AS j
      FROM generate_series(0, 2100, 7) n) d;

-- the request of the design document
SELECT encode(extaction.digest('{"v":"extaction.request.v1","scope":"shop","intent_id":"order-7/receipt","action":"send_mail","candidate":null,"destination":"ada@example.org","payload":{"z":null,"subject":"Quittung é 😀","n":1e21,"small":0.0000001,"list":[2,1],"total":120.10}}'), 'hex');

-- the key of the design document: a version 8 UUID, variant 10
SELECT extaction.idempotency_key('6f9619ff-8b86-4011-b42d-00c04fc964ff', 'shop', 'order-7/receipt');

-- the same, computed from its definition: no rows
SELECT scope, intent_id
FROM (VALUES ('shop', 'order-7/receipt'), ('s', 'hop'), ('é', '😀'), ('a', repeat('b', 255)), ('', '')) v (scope, intent_id),
    LATERAL (SELECT '6f9619ff-8b86-4011-b42d-00c04fc964ff'::uuid AS ledger_id) l,
    LATERAL (SELECT public.digest(int4send(16) || uuid_send(ledger_id)
        || int4send(octet_length(scope)) || convert_to(scope, 'UTF8')
        || int4send(octet_length(intent_id)) || convert_to(intent_id, 'UTF8'), 'sha256') AS hash) h
WHERE extaction.idempotency_key(ledger_id, scope, intent_id) <>
      encode(set_byte(set_byte(substr(hash, 1, 16),
        6, get_byte(hash, 6) & 15 | 128), 8, get_byte(hash, 8) & 63 | 128), 'hex')::uuid;

-- lengths count: what moves from scope to intent_id makes another key
SELECT count(DISTINCT extaction.idempotency_key('6f9619ff-8b86-4011-b42d-00c04fc964ff', left('abcd', n), substr('abcd', n + 1)))
FROM generate_series(0, 4) n;

--
-- Errors
--

\set VERBOSITY default
SELECT extaction.canonical('{"task": {"items": [1, 2, 3, {"price": 9007199254740993}]}}');
SELECT extaction.digest('0.1000000000000000055');
SELECT extaction.digest('1e131000');

-- how a path is written
SELECT f.path, f.detail
FROM (VALUES
    ('%s'),
    ('[0, [%s]]'),
    ('{"a": {"b_1": {"_": %s}}}'),
    ('{"odd name": {"": [{"1a": %s}]}}'),
    ('{"quote\"": {"back\\slash": {"Grüße": %s}}}')) v (form),
    pg_temp.fault('SELECT extaction.digest($1::jsonb)', format(form, '1e400')) f;

-- a long path is clipped: at a name, and as a whole
SELECT octet_length(path) BETWEEN 200 AND 220 AS clipped, right(path, 12) AS "right"
FROM pg_temp.fault('SELECT extaction.digest($1::jsonb)',
                   format('{"%s": [1e400]}', repeat('é', 1000))) f
UNION ALL
SELECT octet_length(path) BETWEEN 1000 AND 1020, right(path, 12)
FROM pg_temp.fault('SELECT extaction.digest($1::jsonb)',
                   repeat('[', 500) || '1e400' || repeat(']', 500)) f;

-- deeper than the stack allows
CREATE TEMP TABLE deep AS SELECT (repeat('[', 1000) || repeat(']', 1000))::jsonb AS j;
SELECT octet_length(extaction.digest(j)) FROM deep;
SET max_stack_depth = '100kB';
SELECT f.state, left(path, 12) AS path, message, hint
FROM pg_temp.fault('SELECT extaction.digest(j) FROM deep WHERE $1 IS NOT NULL', '') f;
RESET max_stack_depth;

-- larger than is taken: the stored size does not count, the document's does
CREATE TEMP TABLE large AS SELECT jsonb_build_object('x', repeat('y', 5000)) AS j;
SELECT pg_column_size(j) < 1024 AS stored_small FROM large;
SET extaction.max_document_size = '1kB';
SELECT extaction.canonical('{"small": true}');
SELECT extaction.canonical(j) FROM large;
SELECT extaction.digest(j) FROM large;
SELECT extaction.strict_json(repeat(' ', 1025));
RESET extaction.max_document_size;
SELECT length(extaction.canonical(j)) FROM large;

--
-- strict_json
--

SELECT extaction.strict_json('{"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}], "c": {"a": 1.50}}');
SELECT extaction.strict_json('{"a": 1, "b": {"a": 2, "c": 3, "a": 2}}');

SELECT f.state, f.path, f.message
FROM (VALUES
    ('{"a": 1, "a": 1}'),
    ('{"a": 1, "\u0061": 2}'),                   -- the same name, written otherwise
    ('{"é": 1, "\u00e9": 2}'),
    ('{"e\u0301": 1, "\u00e9": 2}'),             -- not the same
    ('{"A": 1, "a": 2}'),
    ('[0, {"x": [{"odd name": {"k": null, "l": 1, "k": []}}]}]'),
    ('{"": 1, "": 2}'),
    ('{"b": 1, "a": {}, "c": {"b": 1}, "a": {"b": 1}}'),
    ('{"a": {"a": {"a": [[[{"a": 1}]]]}}}'),
    ('{"a": [1, 2, {"n": 9007199254740993}]}'),
    ('1e400'),
    ('{"a": 1'),                                 -- PostgreSQL's own errors
    ('{"a": "\u0000"}'),
    ('"\ud800"'),
    ('')) v (document),
    pg_temp.fault('SELECT extaction.strict_json($1)', document) f;

-- many members, none twice; then the last twice
SELECT count(*) FROM jsonb_object_keys(extaction.strict_json(
    (SELECT '{' || string_agg(format('"k%s": 0', i), ',') || '}' FROM generate_series(1, 10000) i)));
SELECT f.state, f.path FROM pg_temp.fault('SELECT extaction.strict_json($1)',
    (SELECT '{' || string_agg(format('"k%s": 0', i), ',') || ',"k4711": 1}' FROM generate_series(1, 10000) i)) f;

DROP TABLE vector, refused, deep, large;
