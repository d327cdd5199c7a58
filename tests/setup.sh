# What ./try and ./test look for before they build anything, and install if they may. Sourced by both.

# Nothing is fetched silently for minutes where there is no network.
export CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20

die() {
    echo "$0: $*" >&2
    exit 4
}

# Programs, and the Debian packages that have them: of a lab, and of its tests.
lab_programs() {
    cat <<'TABLE'
program ip                 iproute2
program tc                 iproute2
program nft                nftables
TABLE
}
test_programs() {
    lab_programs
    cat <<'TABLE'
program ethtool            ethtool
program setcap             libcap2-bin
program setpriv            util-linux
program unshare            util-linux
program losetup            mount
program mkfs.ext4          e2fsprogs
program valgrind           valgrind
program xz                 xz-utils
program zstd               zstd
program qemu-img           qemu-utils
program udp-sender         udpcast
program tshark             tshark
program chromium           chromium fonts-dejavu-core
program g++                g++
program mpifort.openmpi    openmpi-bin libopenmpi-dev gfortran
program mpirun.openmpi     openmpi-bin libopenmpi-dev gfortran
program mpiexec.hydra      mpich libmpich-dev gfortran
header  mpich/mpi.h        mpich libmpich-dev gfortran
library libasan.so         gcc g++
python  numpy,pytest       python3 python3-numpy python3-pytest
TABLE
}
# For packages, which --full builds and installs into empty roots.
package_programs() {
    cat <<'TABLE'
program musl-gcc           musl-tools
program mmdebstrap         mmdebstrap
program dpkg-shlibdeps     dpkg-dev
TABLE
}

has() {
    case $1 in
        program) command -v "$2" >/dev/null ;;
        header) [ -n "$(find /usr/include -path "*$2" 2>/dev/null | head -n 1)" ] ;;
        library) [ -n "$(find /usr/lib/gcc -name "$2" 2>/dev/null | head -n 1)" ] ;;
        # The first on the path, or the system's own.
        python) python3 -c "import $2" 2>/dev/null || /usr/bin/python3 -c "import $2" 2>/dev/null ;;
    esac
}

# Prints the packages of a table whose programs are missing, each once.
missing() {
    while read -r kind name packages; do
        has "$kind" "$name" || printf '%s\n' $packages
    done | sort -u | tr '\n' ' '
}

# Installs packages, or says the one line that does.
install_packages() {
    [ $# -gt 0 ] || return 0
    local line="apt-get install -y --no-install-recommends $*"
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "$0: programs are missing; as root: $line" >&2
        return 1
    fi
    echo "installing: $*"
    local quick=(-o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
    if ! { apt-get "${quick[@]}" update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get "${quick[@]}" install -y -qq --no-install-recommends "$@"; } >target/apt.log 2>&1; then
        tail -n 5 target/apt.log >&2
        echo "$0: apt-get failed (target/apt.log); what is missing: $line" >&2
        return 1
    fi
}

# Rust of the promised version or later, and a linker.
require_rust() {
    local promised found
    promised=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    command -v cargo >/dev/null && command -v rustc >/dev/null ||
        die "Rust $promised or later is missing: install it with rustup (https://rustup.rs)"
    found=$(rustc --version | cut -d ' ' -f 2)
    [ "$(printf '%s\n' "$promised" "$found" | sort -V | head -n 1)" = "$promised" ] ||
        die "Rust $promised or later is needed, and this is $found: rustup update stable"
    mkdir -p target
    command -v cc >/dev/null || install_packages gcc libc6-dev || die "a C compiler's linker (cc) is missing"
}

# Where programs can be made and run: what a small or noexec /tmp cannot do, target/tmp does.
require_room() {
    local free_mib probe
    free_mib=$(($(df --output=avail -k target | tail -n 1) / 1024))
    [ "$free_mib" -ge "$1" ] || die "the build needs $1 MiB of disk, and $free_mib are free at $PWD/target"
    probe=$(mktemp "${TMPDIR:-/tmp}/ethbcast-XXXXXX" 2>/dev/null) && echo '#!/bin/sh' >"$probe" && chmod +x "$probe" &&
        "$probe" 2>/dev/null && [ "$(df --output=avail -k "$probe" | tail -n 1)" -ge 524288 ] || {
        echo "${TMPDIR:-/tmp} is small, or lets no program run: $PWD/target/tmp is used instead"
        mkdir -p target/tmp
        export TMPDIR="$PWD/target/tmp"
    }
    rm -f "$probe"
}

# Prints what this kernel cannot do that a lab needs, with what to do.
kernel_lacks() {
    unshare --net true 2>/dev/null ||
        { echo "no network namespace can be made: run this outside of a container, or in one with CAP_SYS_ADMIN"; return; }
    unshare --net ip link add name probe0 type veth peer name probe1 2>/dev/null ||
        { echo "this kernel has no veth interfaces: modprobe veth, or boot one with CONFIG_VETH"; return; }
    unshare --net ip link add name probe0 type bridge 2>/dev/null ||
        { echo "this kernel has no bridges: modprobe bridge, or boot one with CONFIG_BRIDGE"; return; }
    unshare --net nft add table netdev t 2>/dev/null ||
        { echo "this kernel has no nftables: modprobe nf_tables, or boot one with CONFIG_NF_TABLES_NETDEV"; return; }
    unshare --net tc qdisc add dev lo root tbf rate 1mbit burst 10k limit 10k 2>/dev/null ||
        { echo "this kernel shapes no traffic: modprobe sch_tbf, or boot one with CONFIG_NET_SCH_TBF"; return; }
}
