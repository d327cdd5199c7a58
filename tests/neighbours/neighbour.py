"""Hosts, daemons and steps of the scripts beside it, each of which runs ethbcast with one real neighbour.

A script has network, mount and process namespaces of its own, so that whatever it leaves running ends with it. It prints
`ok`, `WRONG` or `NOT RUN` for each step with what came of it and the seconds since the last one, and exits with 1 if one
is wrong.
"""

import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("ETHBCAST", str(TREE / "target/debug/ethbcast"))
INNER = "ETHBCAST_NEIGHBOUR_INNER"
OUT = TREE / "target/packages"
LIMIT = 600
rows, wrong, left_out, daemons = [], [], [], []
ends = [time.monotonic()]


def sh(line, check=True, limit=LIMIT):
    done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=limit)
    if check and done.returncode != 0:
        raise OSError(f"{line}: {(done.stderr.strip() or done.stdout.strip())[-300:]}")
    return done.stdout.strip()


def tried(line, limit=LIMIT, **more):
    """The ended command; one that does not end has the code 124."""
    process = subprocess.Popen(
        line, shell=True, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )
    try:
        out, err = process.communicate(timeout=limit)
        return subprocess.CompletedProcess(line, process.returncode, out, err)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        return subprocess.CompletedProcess(line, 124, out, f"{err}\ndoes not end within {limit} s")


def daemon(line, **more):
    process = subprocess.Popen(line, shell=True, start_new_session=True, stdin=subprocess.DEVNULL, **more)
    daemons.append(process)
    return process


def end(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def ended(process):
    try:
        return process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        return "none: it hangs"


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def wait_for(what, met, limit=60):
    end_of_wait = time.monotonic() + limit
    while not met():
        if time.monotonic() > end_of_wait:
            raise OSError(f"{what}: not within {limit} s")
        time.sleep(0.2)


def row(what, ok, said):
    rows.append(what)
    ends.append(time.monotonic())
    print(f"{'ok   ' if ok else 'WRONG'} {what}: {said} [{ends[-1] - ends[-2]:.0f} s]", flush=True)
    if not ok:
        wrong.append(what)


def not_run(what, why):
    left_out.append(what)
    print(f"NOT RUN {what}: {why}", flush=True)


def last(done):
    """The sender's verdict, else the last line that was said."""
    lines = (done.stdout + done.stderr).strip().splitlines() or ["nothing said"]
    return next((line for line in lines if " receivers verified" in line), lines[-1])[:150]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recipe(page, begins):
    """The block of code in a page of docs/ that has this in its first line."""
    blocks = re.findall(r"```(?:sh|yaml|python|toml)\n(.*?)```", (TREE / "docs" / page).read_text(), re.S)
    found = [block for block in blocks if begins in block.splitlines()[0]]
    if len(found) != 1:
        raise OSError(f"docs/{page} has {len(found)} blocks that begin with {begins}")
    return found[0]


def package(pattern, script):
    """The newest of target/packages with this name; packaging/`script` makes it if there is none, without optimisation."""
    newest = lambda: max(OUT.glob(pattern), key=lambda path: path.stat().st_mtime, default=None)
    if not newest():
        sh(f"cd {TREE} && packaging/{script} packaging", limit=3600)
    return newest()


def suite():
    """This machine's release of Debian."""
    return sh(". /etc/os-release; echo $VERSION_CODENAME")


def debian(name, packages=""):
    """An archive of a Debian with its essential packages and these, fetched once."""
    kept = OUT / f"debian{'-' + name if packages else ''}.tar"
    if not kept.exists():
        more = f"--include={packages}" if packages else ""
        sh(
            f"mkdir -p {OUT} && mmdebstrap --quiet --variant=essential {more} {suite()} {OUT}/new-{name}.tar"
            f" && mv {OUT}/new-{name}.tar {kept}"
        )
    return kept


def debian_kernel():
    """The unpacked package of Debian's kernel, as for tests/vm."""
    sys.path.insert(0, str(TREE / "tests/vm"))
    import machines

    return machines.debian_kernel(TREE / "target/vm")


def modules(tree, place, names):
    """Copies drivers of that kernel, numbered in the order in which they are loaded; how many."""
    release = next((tree / "lib/modules").iterdir()).name
    sh(f"depmod -b {tree} {release}")
    paths = []
    for name in names:
        lines = sh(f"modprobe -d {tree} -S {release} --show-depends {name}").splitlines()
        paths += [line.split()[1] for line in lines if line.startswith("insmod") and line.split()[1] not in paths]
    place.mkdir(parents=True)
    for number, path in enumerate(paths):
        shutil.copy(path, place / f"{number:02}-{Path(path).name}")
    return len(paths)


def unpacked(archive, place):
    place.mkdir()
    sh(f"tar --extract --file {archive} --directory {place}")
    return place


class Lab:
    """Hosts n0 to nN of a lab, with addresses and names of their own, each with its own disk at one path."""

    def __init__(self, root, count, rate="100mbit"):
        self.root = root
        self.local = root / "local"
        self.names = [f"n{number}" for number in range(count)]
        self.others = self.names[1:]
        self.program = root / "bin/ethbcast"
        for folder in [self.local, self.program.parent, *(root / "disk" / name for name in self.names)]:
            folder.mkdir(parents=True)
        os.chmod(root, 0o755)
        shutil.copy(PROGRAM, self.program)
        os.environ["PATH"] = f"{self.program.parent}:{os.environ['PATH']}"
        sh(f"{PROGRAM} lab up {count}" + (f" --rate {rate}" if rate else ""))
        for number, name in enumerate(self.names):
            sh(f"ip -n ethbcast-lab-{name} addr add {self.address(number)}/24 dev eth0")

    @staticmethod
    def address(number):
        return f"10.77.0.1{number}"

    def on(self, host, line):
        """The command for `line` on a host, under its own name and with its own disk."""
        inner = f"hostname {host}; mount --bind {self.root}/disk/{host} {self.local}; {line}"
        return f"exec {PROGRAM} lab exec {host} -- unshare -u -m sh -c {quoted(inner)}"

    def run(self, host, line, limit=LIMIT):
        return tried(self.on(host, line), limit)

    def sent(self, host="n0"):
        """Bytes that the host's cable has carried."""
        line = "exec cat /sys/class/net/eth0/statistics/tx_bytes"
        return int(sh(f"{PROGRAM} lab exec {host} -- sh -c {quoted(line)}"))

    def have(self, name, wanted, hosts=None):
        """Hosts whose disks hold the file with this digest."""
        whole = lambda path: path.is_file() and digest(path) == wanted
        return [host for host in hosts or self.others if whole(self.root / "disk" / host / name)]

    def clear(self):
        for path in (self.root / "disk").glob("*/*"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def main(doc, programs, steps, network=True, before=None):
    """Runs `steps` with a folder that is removed afterwards, in namespaces of its own. `programs` are those needed, with
    their packages. `before` fetches and builds what is kept in target/packages, with the machine's own network."""
    if os.geteuid() != 0:
        sys.exit("hosts are namespaces: run this as root")
    lacking = [name for name in programs if not (shutil.which(name) or Path(name).exists())]
    if lacking:
        packages = " ".join(sorted({programs[name] for name in lacking}))
        sys.exit(f"missing: {', '.join(lacking)} (apt-get install --no-install-recommends {packages})")
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is missing: cargo build, or set ETHBCAST")
    if INNER not in os.environ:
        if before:
            before()
        os.environ[INNER] = "1"
        apart = ["-m", "-p", "-f", "--mount-proc", "--kill-child", "--propagation", "private"]
        apart += ["-n"] if network else []
        os.execvp("unshare", ["unshare", *apart, sys.executable, *sys.argv])
    print(f"{doc.splitlines()[0]}\n{time.strftime('%d %B %Y')}, {sh('uname -sr')}, {os.cpu_count()} cores", flush=True)
    began = time.monotonic()
    if network:
        Path("/run/netns").mkdir(parents=True, exist_ok=True)
        sh("mount -t tmpfs tmpfs /run/netns && ip link set lo up")
    root = Path(tempfile.mkdtemp(prefix="neighbours-"))
    try:
        steps(root)
    finally:
        for process in reversed(daemons):
            end(process)
        if network:
            sh(f"{PROGRAM} lab down", check=False)
        unmount(root)
        tried(f"rm -rf --one-file-system {root}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{len(rows)} steps, {len(wrong)} wrong, {len(left_out)} not run, {time.monotonic() - began:.0f} s,"
        f" {used.ru_utime + used.ru_stime:.0f} s of a processor"
    )
    sys.exit(1 if wrong else 0)


def unmount(root):
    """Unmounts what is mounted below, last first."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed([place for place in mounts if place.startswith(f"{root}/")]):
        sh(f"umount -l {place}", check=False)
