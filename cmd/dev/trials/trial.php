<?php // One trial in PHP, see trial.py.
[$_self, $shape, $before, $after] = $argv;
function role($name) { fwrite(STDOUT, $name . " " . getmypid() . "\n"); }
function dial() { return pg_connect(getenv('DATABASE_URL'), PGSQL_CONNECT_FORCE_NEW); }
$db = dial(); role('opener'); pg_query($db, 'select 42'); usleep((int)$before);
$pid = pcntl_fork();
if ($pid == 0) {
    usleep((int)$before);
    if ($shape == 'child-close') { role('actor'); pg_close($db); }
    if ($shape == 'child-exit') { role('actor'); exit(0); }
    if ($shape == 'shared') { role('actor'); pg_query($db, 'select 42'); }
    if ($shape == 'own') { $own = dial(); pg_query($own, 'select 42'); pg_close($own); }
    usleep((int)$after);
    posix_kill(getmypid(), SIGKILL); // without destructors: the only way to forget a connection
}
pcntl_waitpid($pid, $status);
if (!@pg_query($db, 'select 42')) { exit(1); }
pg_close($db);
