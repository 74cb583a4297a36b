# The first process of the container. It takes commands from standard input, one
# per line, and answers each with one line on standard output; standard error is
# the server's log. When its input ends, whoever started it is gone: it ends,
# and with it, as the first process, everything in the container.
set -f
exec 3>&1 1>&2
umask 077
trap 'exit 0' TERM INT QUIT

home=/tmp/deadwire
mkdir -p "$home/socket"

# Debian's packages and the RPMs keep the server off PATH; the highest one counts.
set +f
for bin in /usr/local/pgsql/bin /usr/pgsql-*/bin /usr/lib/postgresql/*/bin; do
	[ -x "$bin/postgres" ] && newest=$bin
done
set -f
command -v postgres >/dev/null || PATH=$newest:$PATH

answer() { printf '%s\n' "$*" >&3; }

# parent prints the parent of a process; proc_pid_stat(5) has it second after the
# name, which may contain anything.
parent() {
	IFS= read -r stat <"/proc/$1/stat" || return
	set -- ${stat##*) }
	printf '%s' "$2"
}

while IFS= read -r line; do
	set -- $line
	verb=$1
	shift
	case $verb in
	version) answer "ok $(postgres --version)" ;;
	write) # NAME, then the lines of the file, then a line with a dot
		while IFS= read -r line && [ "$line" != . ]; do
			printf '%s\n' "$line"
		done >"$home/$1"
		answer ok
		;;
	initdb)
		if initdb "$@" >"$home/initdb.log" 2>&1; then
			answer ok
		else
			code=$?
			cat "$home/initdb.log" >&2
			answer "error initdb ended with code $code"
		fi
		;;
	include) # CONFIGURATION FILE
		printf "\ninclude '%s'\n" "$2" >>"$1" && answer ok
		;;
	start)
		(
			postgres -D "$home/data" &
			pid=$!
			answer "started $pid"
			wait "$pid"
			answer "ended $pid $?"
		) &
		;;
	status) # the last line of postmaster.pid: what the postmaster says of itself
		status=
		[ -r "$home/data/postmaster.pid" ] && while IFS= read -r line; do status=$line; done <"$home/data/postmaster.pid"
		answer "ok $status"
		;;
	signal) # SIGNAL PID
		kill -"$1" "$2" 2>/dev/null
		answer ok
		;;
	crash) # PID POSTMASTER
		if [ -r "/proc/$1/stat" ] && [ "$(parent "$1")" = "$2" ] && kill -KILL "$1"; then
			answer ok
		else
			answer stranger
		fi
		;;
	*) answer "error unknown command $verb" ;;
	esac
done
