# One trial in Perl, see trial.py.
use strict; use warnings; use DBI; use Time::HiRes qw(usleep);
$| = 1;
my ($shape, $before, $after) = @ARGV;
my ($user, $pass, $host, $port, $name) = $ENV{DATABASE_URL} =~ m{//([^:]*):([^@]*)@([^:]+):(\d+)/([^?]*)} or die "url";
my $mode = $ENV{TRIAL_SSLMODE} || "disable";
sub dial { DBI->connect("dbi:Pg:host=$host;port=$port;dbname=$name;sslmode=$mode", $user, $pass, {RaiseError => 1, PrintError => 0}) }
sub say_role { syswrite STDOUT, "$_[0] $$\n" }
my $db = dial();
say_role("opener"); $db->selectrow_array("select 42"); usleep $before;
my $pid = fork();
if ($pid == 0) {
    usleep $before;
    if ($shape eq "child-close") { say_role("actor"); $db->disconnect; }
    if ($shape eq "child-exit") { say_role("actor"); exit 0; }
    if ($shape eq "shared") { say_role("actor"); $db->selectrow_array("select 42"); $db->{AutoInactiveDestroy} = 1; $db->{InactiveDestroy} = 1; exit 0; }
    $db->{InactiveDestroy} = 1;
    if ($shape eq "own") { my $own = dial(); $own->selectrow_array("select 42"); $own->disconnect; }
    usleep $after; exit 0;
}
waitpid $pid, 0;
eval { $db->selectrow_array("select 42"); $db->disconnect; 1 } or exit 1;
