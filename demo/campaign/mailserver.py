"""A dovecot of our own: LMTP and IMAP on loopback, without root, in one directory.

Every address has a mailbox, which is made with its first letter; what follows a
"+" in an address is not part of its name.  The same password opens all of them.
Nothing is synced to disk: a demo's mailboxes need not outlive a power failure.
"""

import grp
import os
import pwd
import shutil
import socket
import subprocess
import time

PASSWORD = "campaign"

CONFIGURATION = """
{by_version}
base_dir = {directory}/run
state_dir = {directory}/run
log_path = {directory}/log
default_internal_user = {user}
default_internal_group = {group}
default_login_user = {user}
protocols = lmtp imap
listen = 127.0.0.1
ssl = no
recipient_delimiter = +
mail_fsync = never
# two letters that make the same mailbox at once would deadlock over this index, and lmtp would panic
mailbox_list_index = no
first_valid_uid = 1
first_valid_gid = 1

service lmtp {{
  inet_listener lmtp {{
    port = {lmtp_port}
  }}
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {imap_port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
service auth {{
  client_limit = 4000
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""

# What dovecot 2.4 writes in another way.
BEFORE_2_4 = """
disable_plaintext_auth = no
mail_location = mdbox:~
service imap-login {{
  service_count = 0
}}
service imap {{
  service_count = 1000
}}
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid={user} gid={group} home={directory}/mail/%u allow_all_users=yes
}}
"""
SINCE_2_4 = """
dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
auth_allow_cleartext = yes
mail_driver = mdbox
mail_home = {directory}/mail/%{{user}}
mail_path = ~
service imap-login {{
  restart_request_count = unlimited
}}
service imap {{
  restart_request_count = 1000
}}
passdb static {{
  password = {password}
}}
userdb static {{
  allow_all_users = yes
  fields {{
    uid = {user}
    gid = {group}
  }}
}}
"""


def what_is_missing():
    """The Debian packages that are not there."""
    return [package for package, program in (("dovecot-lmtpd", "lmtp"), ("dovecot-imapd", "imap"))
            if not os.path.exists(f"/usr/lib/dovecot/{program}")]


def find_program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")


class MailServer:
    def __init__(self, directory):
        self.directory = directory
        self.configuration = os.path.join(directory, "dovecot.conf")
        self.log_file = os.path.join(directory, "log")
        self.process = None
        self.lmtp_port, self.imap_port = free_ports(2)
        os.makedirs(directory)
        values = {"directory": directory, "password": PASSWORD, "lmtp_port": self.lmtp_port, "imap_port": self.imap_port,
                  "user": pwd.getpwuid(os.getuid()).pw_name, "group": grp.getgrgid(os.getgid()).gr_name}
        version = subprocess.run([find_program("dovecot"), "--version"], capture_output=True, text=True, check=True).stdout
        by_version = BEFORE_2_4 if version.startswith("2.3") else SINCE_2_4
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(by_version=by_version.format(**values), **values))

    def start(self):
        with open(self.log_file, "ab") as file:
            self.process = start_alone(find_program("dovecot"), "-F", "-c", self.configuration,
                                       stdout=file, stderr=subprocess.STDOUT)
        end = time.monotonic() + 20
        while not (answers(self.lmtp_port) and answers(self.imap_port)):
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("dovecot does not start:\n" + self.log())
            time.sleep(0.1)

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()

    def log(self):
        with open(self.log_file, encoding="utf-8", errors="replace") as file:
            return file.read()

    def letters(self):
        """(mailbox, recipient, Message-ID) of every letter in every mailbox, as dovecot's doveadm reads them."""
        names = os.path.join(self.directory, "mailboxes")
        with open(names, "w", encoding="utf-8") as file:
            file.writelines(name + "\n" for name in sorted(os.listdir(os.path.join(self.directory, "mail"))))
        reader = start_alone(find_program("doveadm"), "-c", self.configuration, "-f", "tab", "fetch", "-F", names,
                             "user hdr.delivered-to hdr.message-id", "mailbox", "INBOX",
                             stdout=subprocess.PIPE, text=True)
        next(reader.stdout, None)       # the heading
        for line in reader.stdout:
            yield tuple(line.rstrip("\n").split("\t")[-3:])
        if reader.wait() != 0:
            raise RuntimeError("doveadm cannot read the mailboxes:\n" + self.log()[-2000:])


def start_alone(*command, **options):
    """A process that Ctrl-C does not reach (we end it ourselves), and that does not outlive us."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], stdin=subprocess.DEVNULL,
                            start_new_session=True, **options)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            return connection.recv(1) != b""
    except OSError:
        return False
