# One trial in Ruby, see trial.py.
require 'pg'
$stdout.sync = true
shape, before, after = ARGV[0], ARGV[1].to_i / 1e6, ARGV[2].to_i / 1e6
def role(name) = $stdout.syswrite("#{name} #{Process.pid}\n")
db = PG.connect(ENV['DATABASE_URL'])
role 'opener'; db.exec('select 42'); sleep before
pid = fork do
  sleep before
  case shape
  when 'child-close' then role 'actor'; db.close
  when 'child-exit' then role 'actor'; exit 0
  when 'shared' then role 'actor'; db.exec('select 42'); exit!(0)
  when 'own' then own = PG.connect(ENV['DATABASE_URL']); own.exec('select 42'); own.close
  end
  sleep after
  exit!(0)
end
Process.wait pid
begin
  db.exec('select 42'); db.close
rescue PG::Error
  exit 1
end
