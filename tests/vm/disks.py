"""What DEST can be on: a directory, a file and an update of both are received onto each file system, which a machine has
as a disk of its own; made on this machine, mounted there."""
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
# What a file system can do, by a command on it; the second of each pair of modes tells whether it was kept.
ABILITIES = [
    ("links", "ln -s x l && [ -L l ]"),
    ("hard links", "echo >h && ln h h2"),
    ("owners, modes", "echo >o && chown 7:7 o && chmod 741 o && [ $(stat -c %a%u o) = 7417 ]"),
    ("`a:b`", "echo >a:b"),
    ("case", "echo >c && echo >C && rm c && [ -e C ]"),
    ("holes", "dd if=/dev/zero of=s bs=1 count=1 seek=1M 2>/dev/null; [ $(stat -c %b s) -lt 512 ]"),
]


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


def table(host, machine, names, check):
    """Receives onto each, and prints what each can do and what came of it."""
    mounts = {name: mount for name, _, _, mount, _ in KINDS}
    places = [(name, mounts[name].format(disk=f"/dev/vd{'abcdefgh'[number]}", at=f"/mnt/{name}"))
              for number, name in enumerate(names)]
    places += [(name, mount.format(at=f"/mnt/{name}")) for name, mount in OTHERS.items()]
    host.sh("rm -rf tree && mkdir -p tree/sub && head -c 300000 /dev/urandom >tree/a && head -c 70000 /dev/urandom >tree/sub/b && "
            "truncate -s 3M tree/holes && echo x >>tree/holes; head -c 2000000 /dev/urandom >one; "
            "cp -a tree linked; ln -s a linked/l; ln linked/a linked/h")
    machine.sh("for m in crc32c_generic nls_cp437 nls_ascii nls_iso8859_1 nls_utf8; do modprobe $m; done")
    rows = []
    for name, mount in places:
        status, text = machine.sh(f"mkdir -p /mnt/{name}; {mount}", 60)
        if machine.sh(f"grep -q ' /mnt/{name} ' /proc/mounts")[0] != 0:
            check(f"{name} is mounted", False, text)
            continue
        folder = f"/mnt/{name}"
        able = []
        for _, line in ABILITIES:
            able.append("yes" if machine.sh(f"mkdir -p {folder}/try; cd {folder}/try && {line}")[0] == 0 else "no")
        machine.sh(f"rm -rf {folder}/try")
        done = []
        for what, dest, options, source in [
            ("tree", "tree", "", "tree/"), ("tree again", "tree", "--force", "tree/"),
            ("in place", "tree", "--in-place", "tree/"), ("file", "one", "", "one"),
            ("file again", "one", "--force", "one"), ("links", "linked", "", "linked/"),
        ]:
            if "again" in what or what == "in place":
                host.sh("head -c 300000 /dev/urandom >tree/a; head -c 2000000 /dev/urandom >one")
            machine.start(f"ethbcast recv --once -q -i eth0 {options} --max-wait 15 {folder}/{dest}")
            status, sent = host.sh(f"ethbcast send -n 1 --max-wait 15 {source}", 90)
            received, said = machine.finish(60)
            sums = "find . -type f | sort | xargs md5sum"
            if source == "one":
                same = machine.sh(f"md5sum <{folder}/one")[1] == host.sh("md5sum <one")[1]
            else:
                same = machine.sh(f"cd {folder}/{dest} && {sums}")[1] == host.sh(f"cd {source} && {sums}")[1]
            left = machine.sh(f"ls -A {folder} | grep -c '^\\.ethbcast'")[1].strip()
            is_right = status == 0 and received == 0 and same and left == "0"
            if what == "links" and able[:2] != ["yes", "yes"]:
                # What cannot be there is either made otherwise, or refused with the reason and nothing left.
                is_right = is_right or status != 0 and left == "0"
                done.append("yes" if status == 0 else "refused")
            else:
                check(f"{name}: {what}", is_right, f"{sent}\n{said}\nexit {status} {received} same {same} left {left}")
                done.append("yes" if is_right else "NO")
                continue
            check(f"{name}: {what}", is_right, f"{sent}\n{said}\nexit {status} {received} same {same} left {left}")
        rows.append([name, *able, *done])
    heads = ["file system", *(name for name, _ in ABILITIES), "tree", "replaced", "in place", "file", "replaced", "tree with links"]
    print("\n| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)
