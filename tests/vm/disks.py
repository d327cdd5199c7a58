"""What DEST can be on: a directory, a file and an update of both are received onto each file system, which a machine has
as a disk of its own; made on this machine, mounted there."""
import re
import shutil
import subprocess
from pathlib import Path

# Name, package, how it is made, how it is mounted (with the disk's name), bytes.
KINDS = [
    ("ext4", "e2fsprogs", "mkfs.ext4 -q -F", "modprobe ext4; mount -t ext4 {disk} {at}", 64 << 20),
    ("xfs", "xfsprogs", "mkfs.xfs -q -f", "modprobe xfs; mount -t xfs {disk} {at}", 320 << 20),
    ("btrfs", "btrfs-progs", "mkfs.btrfs -q -f", "modprobe btrfs; mount -t btrfs {disk} {at}", 160 << 20),
    ("vfat", "dosfstools", "mkfs.vfat", "modprobe vfat; mount -t vfat {disk} {at}", 64 << 20),
    ("exfat", "exfatprogs", "mkfs.exfat", "modprobe exfat; mount -t exfat {disk} {at}", 64 << 20),
    ("ntfs-3g", "ntfs-3g", "mkntfs -q -F -Q", "modprobe fuse; ntfs-3g {disk} {at}", 64 << 20),
]
# Without a disk of their own.
OTHERS = {
    "tmpfs": "mount -t tmpfs tmpfs {at}",
    "overlay": "modprobe overlay; mkdir -p /tmp/low /mnt/ext4/up /mnt/ext4/work; "
               "mount -t overlay -o lowerdir=/tmp/low,upperdir=/mnt/ext4/up,workdir=/mnt/ext4/work overlay {at}",
    "nfs": "modprobe nfsd; modprobe nfsv4; mkdir -p /mnt/ext4/export /var/lib/nfs/rpc_pipefs /var/lib/nfs/v4recovery; "
           "mount -t nfsd nfsd /proc/fs/nfsd; touch /var/lib/nfs/etab /var/lib/nfs/rmtab; echo 10 >/proc/fs/nfsd/nfsv4gracetime; "
           "echo 10 >/proc/fs/nfsd/nfsv4leasetime; "
           "echo '/mnt/ext4/export *(rw,fsid=0,no_root_squash,no_subtree_check,insecure)' >/etc/exports; "
           "printf 'nfs 2049/tcp\\n' >/etc/services; printf 'tcp tpi_cots_ord v inet tcp - -\\n' >/etc/netconfig; "
           "rpc.mountd -N 3 & rpc.nfsd -N 3 -U -p 2049 2; exportfs -a; sleep 12; "
           "mount -t nfs4 -o addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,soft 127.0.0.1:/ {at}",
}
DOCUMENT = Path(__file__).resolve().parents[2] / "docs/files.md"
# A directory with one of each, as tools/tests/lab_program/machine/full.rs has it.
SOURCES = """rm -rf all odd case tree one; mkdir -p all odd case tree/sub; echo text >all/file; chown 12:12 all/file; chmod 640 all/file
ln all/file all/twin; ln -s file all/link; truncate -s 16M all/sparse; echo data | dd of=all/sparse bs=1M seek=1 conv=notrunc 2>/dev/null
python3 -c "import os; os.setxattr('all/file', 'security.ethbcast', b'x')"; echo odd >odd/a:b; echo text >odd/file
head -c 300000 /dev/urandom >tree/a; head -c 70000 /dev/urandom >tree/sub/b; truncate -s 3M tree/holes; echo x >>tree/holes
head -c 3000000 /dev/urandom >case/README; cp case/README case/Readme; head -c 2000000 /dev/urandom >one"""
# The columns of the table in files.md, each by a command where the directory has arrived.
KEPT = ["[ -L link ]", "[ $(stat -c %h file) = 2 ]", "[ $(stat -c %u:%g file) = 12:12 ]", "[ $(stat -c %a file) = 640 ]",
        "getfattr -n security.ethbcast file", "[ $(stat -c %b sparse) -lt 16384 ]"]


def images(folder, untested):
    """Makes the disks; says which cannot be made here."""
    files, names = [], []
    for name, package, make, _, size in KINDS:
        if not shutil.which(make.split(" ")[0]):
            untested.append(f"{name}: apt-get install {package}")
            continue
        file = Path(folder) / f"{name}.img"
        with open(file, "wb") as image:
            image.truncate(size)
        subprocess.run([*make.split(" "), str(file)], check=True, capture_output=True)
        files.append(file)
        names.append(name)
    return files, names


def transfer(host, machine, source, dest, options=""):
    """The exit codes of both ends, and what they said."""
    accept = "--accept owner,setid,xattrs=security.ethbcast"
    machine.start(f"ethbcast recv --once -q -i eth0 {accept} {options} --max-wait 15 {dest}")
    sent, text = host.sh(f"ethbcast send -n 1 --max-wait 15 --numeric --xattrs {source}" if source.endswith("/") else
                         f"ethbcast send -n 1 --max-wait 15 {source}", 90)
    received, said = machine.finish(60)
    return sent, received, f"{text}\n{said}\nexit {sent} {received}"


def line(host, machine, name, folder, check):
    """The row of files.md; what cannot be there is left out by name, and nothing else is."""
    sent, received, text = transfer(host, machine, "all/", f"{folder}/dest")
    # A program that is not there says nothing of the file system.
    kept = ["?" if command.startswith("getfattr") and machine.sh("command -v getfattr")[0] else
            "yes" if machine.sh(f"cd {folder}/dest && {command}")[0] == 0 else "no" for command in KEPT]
    # What the receiver left out by name is in its exit code alone; the sender has delivered.
    codes = (0, 0) if kept[0] == "yes" else (0, 1)
    same = machine.sh(f"cd {folder}/dest && md5sum <twin")[1] == host.sh("md5sum <all/file")[1]
    check(f"{name}: a directory with one of each", (sent, received) == codes and same and (kept[0] == "yes" or "link: " in text), text)
    odd = transfer(host, machine, "odd/", f"{folder}/odd")
    again = [transfer(host, machine, "all/", f"{folder}/dest", option) for option in ("--force", "--in-place")]
    words = [odd[1] == 0, *(one[:2] == codes for one in again)]
    return "| " + " | ".join([name, *kept, *("yes" if word else "no" for word in words)]) + " |"


def check_contents(host, machine, name, folder, check):
    """A directory and a file arrive, replace others, and update them; two names that are one are known before a byte is."""
    for what, dest, options, source in [
        ("tree", "tree", "", "tree/"), ("tree again", "tree", "--force", "tree/"), ("in place", "tree", "--in-place", "tree/"),
        ("file", "one", "", "one"), ("file again", "one", "--force", "one"),
    ]:
        if options:
            host.sh("head -c 300000 /dev/urandom >tree/a; head -c 2000000 /dev/urandom >one")
        sent, received, text = transfer(host, machine, source, f"{folder}/{dest}", options)
        sums = f"find {dest} -type f | sort | xargs md5sum"
        same = machine.sh(f"cd {folder} && {sums}")[1] == host.sh(sums)[1]
        check(f"{name}: {what}", sent == received == 0 and same, text)
    is_one = machine.sh(f"mkdir {folder}/try; cd {folder}/try && echo >c && echo >C && rm c && [ -e C ]")[0] != 0
    machine.sh(f"rm -rf {folder}/try")
    sent, received, text = transfer(host, machine, "case/", f"{folder}/case")
    there = machine.sh(f"ls {folder}/case 2>/dev/null | wc -l")[1].strip()
    right = (sent, received, there) == (1, 4, "0") and "both are one name" in text if is_one else (sent, received, there) == (0, 0, "2")
    check(f"{name}: two names that differ in case", right, f"{text} there {there}")
    left = machine.sh(f"ls -A {folder} | grep '^\\.ethbcast'")[1].strip()
    check(f"{name}: nothing hidden is left", not left, left)


def table(host, machine, names, check):
    """Receives onto each, and compares what it can do with the table of files.md."""
    mounts = {name: mount for name, _, _, mount, _ in KINDS}
    places = [(name, mounts[name].format(disk=f"/dev/vd{'abcdefgh'[number]}", at=f"/mnt/{name}"))
              for number, name in enumerate(names)]
    places += [(name, mount.format(at=f"/mnt/{name}")) for name, mount in OTHERS.items()]
    status, text = host.sh(SOURCES)
    check("the directories that are sent", status == 0, text)
    machine.sh("for m in crc32c_generic nls_cp437 nls_ascii nls_iso8859_1 nls_utf8; do modprobe $m; done")
    document = DOCUMENT.read_text()
    for name, mount in places:
        status, text = machine.sh(f"mkdir -p /mnt/{name}; {mount}", 60)
        if machine.sh(f"grep -q ' /mnt/{name} ' /proc/mounts")[0] != 0:
            check(f"{name} is mounted", False, text)
            continue
        row = line(host, machine, name, f"/mnt/{name}", check)
        print(row, flush=True)
        has_row = re.search("^" + re.escape(row).replace(re.escape("?"), "(yes|no)") + "$", document, re.M)
        check(f"{name}: files.md has the row", has_row, row)
        check_contents(host, machine, name, f"/mnt/{name}", check)
