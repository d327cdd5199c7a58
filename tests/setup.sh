# What ./try and ./test look for before they build anything, and install if they may. Sourced by both.

# Nothing is fetched silently for minutes where there is no network. (A name server that does not answer is asked for
# 20 s otherwise, for each source of packages.)
export CARGO_NET_RETRY=1 CARGO_HTTP_TIMEOUT=20 RES_OPTIONS="timeout:3 attempts:2"

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

# Whether the PATH has a program. The shell also finds a file of that name that cannot be run.
runs() {
    [ -x "$(command -v "$1")" ]
}

has() {
    case $1 in
        program) runs "$2" ;;
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

# The line that has root do the same, with this user's Rust, and with the folder where root's programs are.
as_root() {
    echo 'sudo env "PATH=$PATH:/usr/sbin" "RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}"' "$0"
}

# Installs packages. Where it cannot, prints why, with the one line that does.
install_packages() {
    [ $# -gt 0 ] || return 0
    local line="apt-get install -y --no-install-recommends $*" log=$target/apt.log
    if [ "$(id -u)" -ne 0 ] || ! runs apt-get; then
        echo "programs are missing; as root: $line"
        return
    fi
    echo "installing (apt's own words are in $log): $*" >&2
    local apt=(apt-get -qq -o Acquire::Retries=1 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20)
    if ! { "${apt[@]}" -o Acquire::Retries=0 update &&
        DEBIAN_FRONTEND=noninteractive "${apt[@]}" install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        echo "programs are missing, and apt-get could not install them ($log): $line"
    fi
}

# Installs what a table names and this machine lacks. Prints why a lab cannot be made here, if so.
require_programs() {
    local lacking why
    lacking=$("$1" | missing)
    # shellcheck disable=SC2086 # one word is one package
    why=$(install_packages $lacking)
    # A package can be there without its program, or not on this PATH.
    [ -n "$why" ] || [ -z "$lacking" ] || lacking=$("$1" | missing)
    [ -n "$why" ] || [ -z "$lacking" ] || why="programs are not found on the PATH; they are in the packages $lacking"
    [ -n "$why" ] || why=$(kernel_lacks)
    echo "$why"
}

# Rust of the promised version or later, and a linker.
require_rust() {
    local promised found why
    promised=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    runs cargo && runs rustc ||
        die "Rust $promised or later is missing: install it with rustup (https://rustup.rs)"
    found=$(rustc --version | cut -d ' ' -f 2)
    [ "$(printf '%s\n' "$promised" "$found" | sort -V | head -n 1)" = "$promised" ] ||
        die "Rust $promised or later is needed, and this is $found: rustup update stable"
    # Where cargo builds, whatever its configuration and the environment say.
    target=$(cargo metadata --offline --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
    mkdir -p "$target" || die "$target, where cargo builds, cannot be made: CARGO_TARGET_DIR can name another folder"
    # Whoever owns the tree goes on as himself after root has built in it.
    [ "$(id -u)" -ne 0 ] || [ -O Cargo.toml ] || trap 'chown -R --reference=Cargo.toml "$target"' EXIT
    runs cc || why=$(install_packages gcc libc6-dev)
    [ -z "${why:-}" ] || die "a C compiler's linker (cc) is missing; $why"
}

# Room for what is built, of so many MiB in all. Where programs can be made and run: what a small or noexec /tmp cannot
# do, a folder beside what is built does.
require_room() {
    local free_mib built_mib probe
    free_mib=$(($(df --output=avail -k "$target" | tail -n 1) / 1024))
    built_mib=$({ du -sm "$target" 2>/dev/null || true; } | cut -f 1)
    [ "$((free_mib + built_mib))" -ge "$1" ] ||
        die "the build needs $1 MiB, and $free_mib are free at $target: CARGO_TARGET_DIR can name another folder"
    probe=$(mktemp "${TMPDIR:-/tmp}/ethbcast-XXXXXX" 2>/dev/null) && echo '#!/bin/sh' >"$probe" && chmod +x "$probe" &&
        "$probe" 2>/dev/null && [ "$(df --output=avail -k "$probe" | tail -n 1)" -ge 524288 ] || {
        echo "${TMPDIR:-/tmp} is small, or lets no program run: $target/tmp is used instead"
        mkdir -p "$target/tmp"
        export TMPDIR="$target/tmp"
    }
    rm -f "$probe"
}

# Prints what this kernel cannot do that a lab needs, with what to do.
kernel_lacks() {
    while IFS='|' read -r probe lack; do
        # shellcheck disable=SC2086 # words of a command
        unshare $probe </dev/null >/dev/null 2>&1 || { echo "$lack"; return; }
    done <<'TABLE'
--net true|no network namespace can be made: run this outside of a container, or in one with CAP_SYS_ADMIN
--mount --pid --fork --mount-proc true|no /proc can be mounted for a test: run this outside of a container
--net ip link add name p0 type veth peer name p1|this kernel has no veth: modprobe veth, or boot one with CONFIG_VETH
--net ip link add name p0 type bridge|this kernel has no bridges: modprobe bridge, or boot one with CONFIG_BRIDGE
--net nft add table netdev t|this kernel has no nftables: modprobe nf_tables, or boot one with CONFIG_NF_TABLES_NETDEV
--net tc qdisc add dev lo root tbf rate 1mbit burst 10k limit 10k|this kernel shapes no traffic: modprobe sch_tbf
TABLE
}
