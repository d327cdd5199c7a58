"""Virtual machines on a bridge in a network namespace of their own, each with a shell that a script speaks to.

QEMU emulates the processor, so that neither KVM nor the kernel of this machine matters. A machine has an initramfs of
busybox, the program, and those drivers of a Debian kernel that are named; a shell reads from its first serial line.
"""
import glob
import lzma
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

DRIVERS = {"e1000e": "e1000e", "rtl8139": "8139cp", "virtio-net-pci": "virtio_net", "virtio-net-ccw": "virtio_net"}
MODULES = ["virtio_blk", "virtio_pci", "8021q", "loop", "ext4", "xfs", "btrfs", "vfat", "exfat", "overlay", "fuse", "nfsv4",
           "nfsd", "nls_cp437", "nls_ascii", "nls_utf8", "nls_iso8859_1", "crc32c_generic", "virtio_rng"]
BOOT_SECONDS = 300
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /dev /proc /sys /tmp /root /srv /mnt /run /etc
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev; mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmpfs /tmp
export PATH=/usr/bin:/bin HOME=/root PS1= PS2=
for word in $(cat /proc/cmdline); do case $word in
  mods=*) for m in $(echo "${word#mods=}" | tr , ' '); do modprobe $m; done;;
  host=*) hostname "${word#host=}";;
  tty=*) TTY=/dev/${word#tty=};;
esac; done
ip link set lo up
for i in /sys/class/net/*; do [ -e $i/device ] && ip link set ${i##*/} up; done
cd /root
stty -F $TTY -echo 2>/dev/null
exec setsid sh -c "while :; do sh <$TTY >$TTY 2>&1; done"
"""


def run(line, check=True):
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{line}: {done.stderr}")
    return done.stdout


def unpacked(work, pattern):
    """The folder of a package's files."""
    package = sorted(glob.glob(f"{work}/{pattern}"))[-1]
    tree = Path(package).with_suffix("")
    if not tree.exists():
        run(f"dpkg -x {package} {tree}")
    return tree


def debian_kernel(work):
    """The unpacked package of Debian's newest kernel, which is fetched once."""
    if not glob.glob(f"{work}/linux-image-*-amd64_*.deb"):
        names = run("apt-cache search --names-only '^linux-image-6[0-9.]*-[0-9]*-amd64$'").split("\n")
        newest = sorted(name.split(" ")[0] for name in names if name)[-1]
        run(f"mkdir -p {work} && cd {work} && apt-get download {newest}")
    return unpacked(work, "linux-image-*-amd64_*.deb")


def libraries(program):
    """The files that a program of this machine is linked with."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(", listed)


def initramfs(tree, out, program, busybox, programs=()):
    """Packs busybox, the program, others of this machine and the modules of an unpacked kernel package."""
    found = {path.name.split(".")[0].replace("-", "_"): path for path in Path(tree).rglob("*.ko*")}
    root, deps, wanted = Path(tempfile.mkdtemp()), {}, [*MODULES, *DRIVERS.values()]
    place = root / "lib/modules" / next((Path(tree) / "lib/modules").iterdir()).name
    for folder in (place, root / "bin", root / "usr/bin"):
        folder.mkdir(parents=True)
    while wanted:
        name = wanted.pop().replace("-", "_")
        if name in deps or name not in found:
            continue
        data = found[name].read_bytes()
        data = lzma.decompress(data) if found[name].suffix == ".xz" else data
        (place / f"{name}.ko").write_bytes(data)
        needs = re.search(rb"\0depends=([^\0]*)\0", data)
        first = re.search(rb"\0softdep=pre: ([^\0]*)\0", data)
        deps[name] = [one.replace("-", "_") for one in (needs.group(1).decode().split(",") if needs else []) if one]
        wanted += deps[name] + (first.group(1).decode().split() if first else [])
    subprocess.run(["strip", "--strip-debug", *map(str, place.glob("*.ko"))], stderr=subprocess.DEVNULL)

    def before(name, seen):
        for one in deps.get(name, []):
            if one not in seen:
                before(one, seen)
                seen.insert(0, one)
        return seen

    listed = (f"{name}.ko: {' '.join(one + '.ko' for one in before(name, []))}\n" for name in deps)
    (place / "modules.dep").write_text("".join(listed))
    shutil.copy(busybox, root / "bin/busybox")
    for file, name in [(program, "ethbcast"), *((one, Path(one).name) for one in programs)]:
        shutil.copy(file, root / "usr/bin" / name)
        subprocess.run(["strip", root / "usr/bin" / name], stderr=subprocess.DEVNULL)
        for library in libraries(file):
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
    with open(out, "wb") as archive:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=archive, check=True)
    shutil.rmtree(root)


class Host:
    """This machine's side of the bridge, a veth, with the methods of a machine."""

    def __init__(self, folder, program):
        run("mount -t sysfs sys /sys; sysctl -wq net.ipv6.conf.all.disable_ipv6=1; ip link set lo up;"
            "ip link add br0 type bridge mcast_snooping 0; ip link set br0 up; ip link add h0 type veth peer name h1;"
            "ip link set h1 master br0 up; ip link set h0 up", check=False)
        self.name, self.folder = "host", Path(folder)
        (self.folder / "bin").mkdir(parents=True, exist_ok=True)
        link = self.folder / "bin/ethbcast"
        link.unlink(missing_ok=True)
        link.symlink_to(Path(program).resolve())
        path = f"{link.parent}:{os.environ['PATH']}"
        self.env = {**os.environ, "PATH": path, "ETHBCAST_HOST": "host", "ETHBCAST_INTERFACE": "h0"}

    def start(self, command):
        self.job = subprocess.Popen(["bash", "-c", command], cwd=self.folder, env=self.env, text=True,
                                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def finish(self, limit=60):
        """Exit status and what was said; status None if it had to be ended."""
        try:
            text = self.job.communicate(timeout=limit)[0]
            return self.job.returncode, text
        except subprocess.TimeoutExpired:
            self.job.kill()
            return None, self.job.communicate()[0]

    def sh(self, command, limit=60):
        self.start(command)
        return self.finish(limit)


class Machine:
    """A virtual machine `name` with a card of this model and disks of these files."""

    count = 0

    def __init__(self, folder, name, nic, kernel, initrd, arch="x86_64", disks=()):
        self.name, self.folder, self.marks = name, Path(folder) / name, 0
        self.folder.mkdir(parents=True, exist_ok=True)
        Machine.count += 1
        tap = f"t{Machine.count}"
        run(f"ip tuntap add {tap} mode tap; ip link set {tap} master br0 up")
        self.card = f"{nic},netdev=d0,id=nic0,mac=52:54:00:00:00:{Machine.count:02x}"
        is_pc = arch == "x86_64"
        console, tty = ("ttyS1", "ttyS0") if is_pc else ("ttyS0", "ttysclp0")
        modules = (["virtio_pci", "virtio_blk"] if is_pc else []) + [DRIVERS[nic]]
        serial = ["-serial", "chardev:s0", "-serial", "chardev:l0"] if is_pc else \
            ["-device", "sclpconsole,chardev=s0", "-device", "sclplmconsole,chardev=l0"]
        words = f"console={console} tty={tty} loglevel=4 panic=-1 net.ifnames=0 mitigations=off no_timer_check host={name} mods={','.join(modules)}"
        self.line = [f"qemu-system-{arch}", "-M", "pc" if is_pc else "s390-ccw-virtio", "-accel", "tcg", "-m", "512",
                     "-nodefaults", "-no-user-config", "-display", "none", "-kernel", str(kernel), "-initrd", str(initrd),
                     "-append", words, "-chardev", f"socket,id=s0,path={self.folder}/sh,server=on,wait=off",
                     "-chardev", f"file,id=l0,path={self.folder}/log", *serial,
                     "-monitor", f"unix:{self.folder}/mon,server=on,wait=off",
                     "-netdev", f"tap,id=d0,ifname={tap},script=no,downscript=no", "-device", self.card]
        for number, disk in enumerate(disks):
            self.line += ["-drive", f"file={disk},format=raw,if=none,id=k{number}", "-device", f"virtio-blk-pci,drive=k{number}"]

    def boot(self):
        for name in ("sh", "mon"):
            (self.folder / name).unlink(missing_ok=True)
        self.process = subprocess.Popen(self.line, stderr=open(self.folder / "qemu", "w"))
        end = time.time() + 20
        while not ((self.folder / "mon").exists() and (self.folder / "sh").exists()) and time.time() < end:
            time.sleep(0.1)
        time.sleep(0.3)
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(self.folder / "sh"))
        return self

    def ready(self):
        """Waits until the shell answers."""
        end, self.text = time.time() + BOOT_SECONDS, b""
        while time.time() < end:
            try:
                self._send("echo up-$((40+2))\n")
            except TimeoutError:
                continue
            if self._until(rb"up-42", 2):
                time.sleep(1)
                self._until(rb"\Znever", 1)
                self.sh("ip link set eth0 up; sleep 3", 30)
                return self
        raise SystemExit(f"{self.name} does not come up: {(self.folder / 'log').read_text(errors='replace')[-1500:]}")

    def start(self, command):
        self.marks += 1
        self.text = b""
        # Not to the terminal itself, where programs would draw how far they are.
        line = f"( {command}\n) >/tmp/said 2>&1 </dev/null; s=$?; cat /tmp/said; echo mark-{self.marks}-$s\n"
        self._send(line)

    def asked(self, command, question, answer):
        """Starts a command on the terminal itself, and types the answer to what it asks there."""
        self.marks += 1
        self.text = b""
        self._send(f"{command}; echo mark-{self.marks}-$?\n")
        self._until(re.escape(question.encode()), 60)
        self._send(answer + "\n")

    def finish(self, limit=60):
        got = self._until(rb"mark-%d-(\d+)\r?\n" % self.marks, limit)
        text = re.sub(r"mark-\d+-\$s|\r", "", self.text.decode(errors="replace"))
        return (int(got.group(1)) if got else None), re.sub(r"mark-\d+-\d+\n$", "", text)

    def sh(self, command, limit=60):
        self.start(command)
        return self.finish(limit)

    def _send(self, line):
        self.socket.settimeout(60)
        self.socket.sendall(line.encode())

    def _until(self, pattern, limit):
        end = time.time() + limit
        while not (got := re.search(pattern, self.text)) and time.time() < end:
            self.socket.settimeout(0.2)
            try:
                self.text += self.socket.recv(65536)
            except (TimeoutError, OSError):
                pass
        return got

    def monitor(self, command):
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self.folder / "mon"))
            monitor.settimeout(2)
            monitor.sendall(command.encode() + b"\n")
            time.sleep(0.3)
            try:
                return monitor.recv(65536).decode(errors="replace")
            except TimeoutError:
                return ""

    def kill(self):
        self.process.kill()
        self.process.wait()
