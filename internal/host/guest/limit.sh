#!/bin/sh
# Sluice runs this in a guest through its agent: sh -c TEXT sluice OPERATION KEY MAC ID LEASE SYS RECORD.
# Nothing is ever put into the text; all that varies comes as arguments. It holds what the NIC
# with that MAC sends to a limit, with HTB on the device above its virtio NIC and VF. It answers
# in lines, of which the last begins with "ok" or "error".
#
# A process that stays reads records from a pipe, each a limit, and changes the classes in place. When it
# hears nothing for the lease, it leaves the contract, or nothing where there is none, and ends. It may end just when the
# next one starts: the one that renames its directory first has it, and the other leaves the device alone.
set -u
set -f
umask 077
LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH

op=$1 key=$2 mac=$3 id=$4 lease=$5 sys=$6 record=$7
all=/run/sluice-$key   # only root may write to /run: nobody else can have put anything there
dir=$all/$id           # of one process: its pipe and its last answer
none=1000000000000     # bits/s: more than any link
dev='' full=0 boot=''  # the device, what a full packet takes on the wire (bytes), which run of the guest this is
seq=0 bits=0 packets=0 # the contract of the last record

fail() {
	echo "error $*"
	exit 0
}

# word sets got to the first line of a file, without a process for it.
word() {
	got=''
	{ read -r got <"$1"; } 2>/dev/null
}

# need names the first program that is missing.
need() {
	for p in tc timeout dd mkfifo rm rmdir mkdir mv sleep; do
		command -v "$p" >/dev/null || fail "missing $p"
	done
}

# locate sets dev to the device above the pair: a bond, or net_failover's, which is the only one with
# both lower devices and a bus device. VLANs, bridges and macvlans above it have neither.
locate() {
	set +f
	for d in "$sys"/*; do
		word "$d/address"
		[ "$got" = "$mac" ] || continue
		[ -d "$d/bonding" ] || [ -e "$d/device" ] || continue
		set -- "$d"/lower_*
		[ -e "$1" ] || continue
		[ -z "$dev" ] || fail "several $dev ${d##*/}"
		dev=${d##*/}
	done
	set -f
	case $dev in
	'') fail "no-master" ;;
	-* | *[!A-Za-z0-9._-]*) fail "name" ;;
	esac
	word /proc/sys/kernel/random/boot_id
	boot=$got
	word "$sys/$dev/mtu"
	full=$((got + 38)) # Ethernet header, preamble, checksum and gap
}

# root prints kind and handle of the device's root qdisc.
root() {
	tc qdisc show dev "$dev" | while read -r _ kind handle at _; do
		[ "$at" != root ] || echo "$kind $handle"
	done
}

# begin makes the qdisc ours. The kernel sets handle 0: only for those that it made by itself.
begin() {
	r=$(root)
	case $r in
	'htb 51ce:') ;;
	'' | *' 0:') tc qdisc add dev "$dev" root handle 51ce: htb default 2 2>/dev/null || fail "htb" ;;
	*) fail "foreign $r" ;;
	esac
}

# clear gives the device back the qdisc that the kernel gives it.
clear() {
	[ "$(root)" != 'htb 51ce:' ] || tc qdisc del dev "$dev" root
}

# undo takes back what start has done so far, and says why.
undo() {
	clear
	rm -rf "$all"
	echo "$*"
	exit 0
}

# replace ends the processes before this one: they find that their directories are gone. It waits for one that is
# just ending, since that touches the device; not for long, for it may have been killed.
replace() {
	set +f
	for d in "$all"/*; do
		case $d in
		*.end) ;;
		*) mv "$d" "$d.old" 2>/dev/null && continue ;;
		esac
		n=0
		while [ -d "${d%.end}.end" ] && [ $n -lt 20 ]; do
			sleep 0.1 2>/dev/null || sleep 1
			n=$((n + 1))
		done
	done
	set -f
	rm -rf "$all"
}

# burst sets ms to 1 ms of a rate in bytes, and at least two packets.
burst() {
	ms=$(($1 / 8000))
	[ "$ms" -ge $((2 * full)) ] || ms=$((2 * full))
}

# put sets bits/s and packets/s, 0 for none, after showing what stood before. The parent class counts
# each packet as a full one, so its rate is one in packets; the child, which may only borrow, counts bits.
put() {
	b=$1 p=$(($2 * full * 8))
	{ [ "$b" -gt 0 ] && [ "$b" -lt $none ]; } || b=$none
	{ [ "$p" -gt 0 ] && [ "$p" -lt $none ]; } || p=$none
	burst "$p"
	parent="dev $dev parent 51ce: classid 51ce:1 htb rate ${p}bit ceil ${p}bit burst $ms cburst $ms overhead 24 mpu $full quantum 60000"
	burst "$b"
	child="dev $dev parent 51ce:1 classid 51ce:2 htb rate 8000bit ceil ${b}bit burst $full cburst $ms overhead 24 mpu 84 quantum 60000"
	{
		echo "seq $seq"
		printf '%s\n' "qdisc show dev $dev" "class show dev $dev parent 51ce:" "class replace $parent" "class replace $child" |
			tc -b - 2>&1 && echo "ok $dev $full $boot" || echo "error tc"
	} >"$dir/out"
}

# take obeys a record, SEQ BITS PACKETS BITS PACKETS SUM ., where the second two are the contract. What is
# not whole, or older than the last, changes nothing.
take() {
	# shellcheck disable=SC2086
	set -- $1
	[ $# -eq 7 ] && [ "$7" = . ] || return 1
	for n in "$1" "$2" "$3" "$4" "$5" "$6"; do
		case $n in '' | *[!0-9]* | 0?* | ?????????????????*) return 1 ;; esac
	done
	[ $(($1 + $2 + $3 + $4 + $5)) -eq "$6" ] && [ "$1" -gt "$seq" ] || return 1
	seq=$1 bits=$4 packets=$5
	put "$2" "$3"
}

# finish leaves the contract, or nothing, unless another process has taken over.
finish() {
	mv "$dir" "$dir.end" 2>/dev/null || exit 0
	dir=$dir.end
	if [ "$bits" -gt 0 ] || [ "$packets" -gt 0 ]; then
		put "$bits" "$packets"
	else
		clear
	fi
	rm -rf "$dir"
	rmdir "$all" 2>/dev/null # the next process may be there already
	exit 0
}

# stay reads records of 128 bytes; the kernel writes and reads each of them at once.
stay() {
	trap finish TERM INT HUP
	while r=$(timeout "$lease" dd bs=128 count=1 <&3 2>/dev/null) && [ -d "$dir" ]; do
		take "$r"
	done
	finish
}

case $op in
check)
	need
	echo ok
	;;
start)
	need
	locate
	replace
	begin
	mkdir -p "$dir" 2>/dev/null # one that ends may just remove the directory above
	{ mkdir -p "$dir" && mkfifo "$dir/in" && exec 3<>"$dir/in"; } || undo "error files"
	take "$record" || undo "error record"
	out=$(cat "$dir/out")
	case $out in *"error tc") undo "$out" ;; esac
	tc qdisc add dev "$dev" parent 51ce:2 fq_codel 2>/dev/null # as most guests have it; else a FIFO
	echo "$out"
	(
		exec </dev/null >/dev/null 2>&1 # a function's own redirections would keep the agent's pipe open
		stay
	) &
	;;
write)
	[ -p "$dir/in" ] || fail "gone"
	printf %s "$record" 1<>"$dir/in"
	echo ok
	;;
read)
	[ -e "$dir/out" ] || fail "gone"
	cat "$dir/out"
	;;
show)
	locate
	echo "seq 1"
	tc qdisc show dev "$dev"
	[ "$(root)" != 'htb 51ce:' ] || tc class show dev "$dev" parent 51ce:
	echo "ok $dev $full $boot"
	;;
lift)
	locate
	replace
	clear
	echo "ok $dev"
	;;
*) fail "operation" ;;
esac
