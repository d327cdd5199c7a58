#!/usr/bin/env python3
"""Makes the pictures of README.md: a real `ethbcast send` to the hosts of a lab, and the top of its report.

    sudo docs/images/run.py [ETHBCAST]

ETHBCAST is the program, target/release/ethbcast by default. The sender runs in a pseudo-terminal; what it prints is
replayed by run.svg, an animation without scripts. Where animations are off, it shows the end. report.png is the page as
Chromium shows it.
"""

import fcntl
import html
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
COLUMNS, ROWS = 116, 40
LAB, RECEIVERS, MEBIBYTES, RATE = "picture", 6, 32, "50mbit"
COMMAND = f"ethbcast send -n {RECEIVERS} --report run.html image.raw"
PAGE_WIDTH, PAGE_HEIGHT = 1000, 760
# Seconds between two pictures, and how long the last one stays.
STEP, HOLD = 0.5, 6.0
FONT_SIZE, CHARACTER, LINE, MARGIN = 13, 7.8, 19, 16
COLOURS = {"31": "r", "32": "g", "33": "y"}


class Terminal:
    """As much of a terminal as the program uses: lines, the cursor upwards, erasing, colours."""

    def __init__(self):
        self.lines, self.row, self.column, self.colour = [[]], 0, 0, ""

    def feed(self, text):
        for part in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|[\s\S]", text):
            if part == "\n":
                self.row += 1
            elif part == "\r":
                self.column = 0
            elif part.startswith("\x1b["):
                self.control(part[2:-1], part[-1])
            elif part.isprintable():
                self.put(part)
            while len(self.lines) <= self.row:
                self.lines.append([])

    def control(self, value, kind):
        count = int(value) if value.isdigit() else 1
        if kind == "A":
            self.row = max(self.row - count, 0)
        elif kind == "B":
            self.row += count
        elif kind == "K":
            del self.lines[self.row][0 if value == "2" else self.column:]
        elif kind == "J":
            del self.lines[self.row + 1:]
        elif kind == "m":
            self.colour = COLOURS.get(value, "")

    def put(self, character):
        if self.column == COLUMNS:
            self.row, self.column = self.row + 1, 0
            while len(self.lines) <= self.row:
                self.lines.append([])
        line = self.lines[self.row]
        line.extend([(" ", "")] * (self.column + 1 - len(line)))
        line[self.column] = (character, self.colour)
        self.column += 1

    def shown(self):
        """The lines as SVG, one string each; behind them nothing is empty."""
        lines = [marked(line) for line in self.lines]
        while lines and not lines[-1]:
            lines.pop()
        return lines


def marked(line):
    """A line with its colours as elements."""
    text, colour, marked = "", "", ""
    for character, own in line + [("", None)]:
        if own != colour:
            text = html.escape(text)
            marked += f'<tspan class="{colour}">{text}</tspan>' if colour and text.strip() else text
            text, colour = "", own
        text += character
    return marked.rstrip()


def played(program, directory):
    """What a terminal shows of the command, as (seconds, lines)."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(directory)
        os.execv(program, [program, "lab", "exec", "--lab", LAB, "n0", "--", program, *COMMAND.split()[1:]])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    screen, began, pictures, due = Terminal(), time.monotonic(), [], 0.0
    while True:
        readable, _, _ = select.select([terminal], [], [], STEP)
        try:
            text = os.read(terminal, 65536).decode() if readable else None
        except OSError:
            text = ""
        if text == "":
            break
        now = time.monotonic() - began
        # Drawn anew, a picture is erased first: only what has stood for a moment is seen.
        if now >= due and (shown := screen.shown()) and (not pictures or shown != pictures[-1][1]):
            pictures.append((now, shown))
            due = now + STEP
        screen.feed(text or "")
    pictures.append((time.monotonic() - began, screen.shown()))
    _, status = os.waitpid(process, 0)
    if status != 0:
        sys.exit(f"the command failed ({os.waitstatus_to_exitcode(status)}); there is no picture of that")
    return pictures


def svg(pictures):
    """The document: each line once, visible as long as it stood there."""
    whole = pictures[-1][0] + HOLD
    texts = {}
    for index, (_, lines) in enumerate(pictures):
        for row, line in enumerate(lines):
            if line:
                texts.setdefault((row, line), []).append(index)
    last = len(pictures) - 1
    frames, elements = {}, []
    for (row, line), indices in sorted(texts.items()):
        spans = []
        for index in indices:
            if spans and spans[-1][1] == index:
                spans[-1][1] = index + 1
            else:
                spans.append([index, index + 1])
        at = lambda index: f"{100 * pictures[index][0] / whole:.1f}%" if index <= last else "100%"
        steps = [step for begin, end in spans for step in ((at(begin), 1), (at(end), 0))]
        if steps[0][0] != "0.0%":
            steps.insert(0, ("0%", 0))
        keys = "".join(f"{when}{{opacity:{shown}}}" for when, shown in steps if when != "100%")
        name = frames.setdefault(keys, f"f{len(frames)}")
        y = MARGIN + LINE * (row + 2)
        hidden = "" if last in indices else ' opacity="0"'
        elements.append(f'<text class="{name}" x="{MARGIN}" y="{y}"{hidden}>{line}</text>')
    styles = [f".{name}{{animation:{name} {whole:.1f}s step-end infinite}}" for name in frames.values()]
    styles += [f"@keyframes {name}{{{keys}}}" for keys, name in frames.items()]
    rows = max(len(lines) for _, lines in pictures)
    width, height = round(2 * MARGIN + CHARACTER * COLUMNS), 2 * MARGIN + LINE * (rows + 1)
    newline = "\n"
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" \
role="img" aria-label="{html.escape(COMMAND)}: a bar for each of {RECEIVERS} receivers, then a report">
<style>
text{{font:{FONT_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#e6ebf0;\
white-space:pre}}
.g{{fill:#76c97a}}.r{{fill:#ff8a7a}}.y{{fill:#e8c33d}}.p{{fill:#a3b0bc}}
@media (prefers-reduced-motion:no-preference){{
{newline.join(styles)}
}}
</style>
<rect width="100%" height="100%" rx="6" fill="#12181f"/>
<text x="{MARGIN}" y="{MARGIN + LINE}"><tspan class="p">$ </tspan>{html.escape(COMMAND)}</text>
{newline.join(elements)}
</svg>
"""


def photographed(page, picture):
    """The top of a page, as a picture."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    size = f"--window-size={PAGE_WIDTH},{PAGE_HEIGHT}"
    profile = f"--user-data-dir={page.parent}/profile"
    command += [size, profile, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=300)


def main():
    program = str(Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parents[1] / "target/release/ethbcast").resolve())
    directory = tempfile.mkdtemp()
    lab = [program, "lab"]
    subprocess.run([*lab, "up", str(RECEIVERS + 1), "--rate", RATE, "--lab", LAB], check=True, stdout=subprocess.DEVNULL)
    try:
        with open(f"{directory}/image.raw", "wb") as image:
            for _ in range(MEBIBYTES):
                image.write(os.urandom(1 << 20))
        each = [*lab, "each", "--lab", LAB, "--except", "n0", "--", program, "recv", "--quiet", "--max-wait", "60"]
        receivers = subprocess.Popen([*each, f"{directory}/{{}}.raw"])
        pictures = played(program, directory)
        receivers.wait(60)
        photographed(Path(directory) / "run.html", HERE / "report.png")
    finally:
        subprocess.run([*lab, "down", "--lab", LAB], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(directory)
    (HERE / "run.svg").write_text(svg(pictures))


if __name__ == "__main__":
    main()
