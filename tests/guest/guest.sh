# guest.sh: what runs inside a test guest shares. Sourced, by bash.

# make_hosts N [MTU]: interfaces h0.. with addresses 10.0.0.1.., each with a soft-RoCE device rxe0..; their
# other ends p0.. are ports of a switch in the namespace `sw`, where links are shaped and cut. All in one
# namespace otherwise, since soft-RoCE knows only the first; so ARP is not left to the kernel, which would
# answer for every address on every interface.
make_hosts() {
    local n=$1 mtu=${2:-4200} i j
    sysctl -qw net.core.netdev_max_backlog=20000 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 \
        net.ipv4.conf.all.accept_local=1 net.ipv4.conf.default.accept_local=1 net.ipv4.conf.all.arp_ignore=1 \
        net.ipv4.conf.all.arp_announce=2
    ip netns add sw && ip -n sw link add name sw0 mtu "$mtu" up type bridge mcast_snooping 0 || return 1
    for ((i = 0; i < n; i++)); do
        echo "link add name h$i mtu $mtu address 02:00:00:00:00:0$((i + 1)) type veth peer name p$i mtu $mtu netns sw"
        echo "addr add 10.0.0.$((i + 1))/24 dev h$i"
        echo "link set dev h$i up"
    done | ip -batch - || return 1
    for ((i = 0; i < n; i++)); do
        for ((j = 0; j < n; j++)); do
            [ $i = $j ] || echo "neigh replace 10.0.0.$((j + 1)) lladdr 02:00:00:00:00:0$((j + 1)) dev h$i nud permanent"
        done
    done | ip -batch - || return 1
    for ((i = 0; i < n; i++)); do echo "link set dev p$i master sw0 up"; done | ip -n sw -batch - || return 1
    for ((i = 0; i < n; i++)); do rdma link add rxe$i type rxe netdev h$i || return 1; done
    for ((i = 0; i < 100; i++)); do
        [ "$(cat /sys/class/infiniband/rxe*/ports/1/state | grep -c ACTIVE)" = "$n" ] && [ -n "$(gid_index rxe$((n - 1)))" ] && return 0
        sleep 0.1
    done
    echo "guest: the soft-RoCE devices do not become active"
    return 1
}

# gid_index DEVICE: of its IPv4-mapped GID.
gid_index() {
    local i
    for i in 0 1 2 3 4 5 6 7; do
        case $(cat "/sys/class/infiniband/$1/ports/1/gids/$i" 2>/dev/null) in
        0000:0000:0000:0000:0000:ffff:*) echo $i && return ;;
        esac
    done
}

# listening PORT: wait until somebody listens there, 15 s at most.
listening() {
    local i at
    at=$(printf ':%04X' "$1")
    for ((i = 0; i < 150; i++)); do
        grep -qE "$at [0-9A-F:]+ 0A" /proc/net/tcp /proc/net/tcp6 && return 0
        sleep 0.1
    done
    return 1
}

# ranks N COMMAND...: one process a host, each with its device, over verbs; the status is the worst.
ranks() {
    local n=$1 r p worst=0 pids=()
    shift
    for ((r = 0; r < n; r++)); do
        EFLOPS_KEY=0123456789abcdef0123 EFLOPS_RANK=$r EFLOPS_NRANKS=$n EFLOPS_ROOT=10.0.0.1:7000 \
            EFLOPS_TRANSPORT=verbs EFLOPS_DEVICE=rxe$r EFLOPS_INTERFACE=h$r EFLOPS_TIMEOUT_MS=20000 \
            timeout -k 5 120 "$@" >"$T/rank$r" 2>&1 &
        pids+=($!)
    done
    for p in "${pids[@]}"; do wait "$p" || worst=$?; done
    return $worst
}
