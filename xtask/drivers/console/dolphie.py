"""The dashboard dolphie, made for ProxySQL, in a terminal of its own against Flifo's console: each panel must have data."""

import os
import pty
import select
import struct
import fcntl
import subprocess
import sys
import termios
import time

import pyte

ROWS, COLUMNS = 60, 200
# Long: the machine may be busy.
PATIENCE = 120

# The keys that open and close panels, and what stands in a panel that has data.
PANELS = [
    ("dashboard", None, ["Host Information", "Uptime", "Workers", "FE Connected", "Query Data Rates"]),
    # It shows clients at rest only when it is told to.
    ("processlist", "i", ["Thread ID", "Username", "Processlist (1)", os.environ["SUITE_USER"]]),
    ("hostgroup summary", "4", ["Conn Used", "ONLINE", "127.0.0.1"]),
    ("command statistics", "6", ["Total/s", "10s+/s", "SELECT"]),
]


def start():
    """Starts dolphie. Answers with its process and the terminal's end."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    home = os.environ["SUITE_FOLDER"]
    command = [sys.executable, "-c", "from dolphie.App import main; main()"]
    command += ["--host", "127.0.0.1", "--port", os.environ["SUITE_PORT"], "--user", "admin"]
    command += ["--password", os.environ["SUITE_PASSWORD"]]
    command += ["--refresh-interval", "1", "--panels", "dashboard,processlist"]
    environment = dict(os.environ, TERM="xterm-256color", HOME=home, COLORTERM="truecolor")
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True)
    os.close(its)
    return process, own


def see(terminal, stream, screen, wanted):
    """Draws what comes until all that is wanted is on the screen."""
    end = time.monotonic() + PATIENCE
    text = ""
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                stream.feed(os.read(terminal, 65536))
            except OSError:
                break
        text = "\n".join(screen.display)
        if all(it in text for it in wanted):
            return text
    missing = [it for it in wanted if it not in text]
    raise AssertionError(f"not on the screen: {missing}\n{text}")


def main():
    process, terminal = start()
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    try:
        for name, key, wanted in PANELS:
            if key:
                os.write(terminal, key.encode())
            text = see(terminal, stream, screen, wanted)
            with open(os.path.join(os.environ["SUITE_FOLDER"], f"{name}.txt"), "w") as out:
                out.write(text + "\n")
    finally:
        process.kill()
        process.wait()


main()
