package schema

// Statements of the rate row that all processes share.
const (
	// RateReserve reserves the next instant of a destination ($1), $2 seconds after
	// the last one or after now, and returns how many seconds to wait for it. Time is
	// the server's own at execution. The row lock is what puts processes in line, so
	// the statement must never run inside an open transaction.
	RateReserve = `/* conveyor:rate-reserve */
insert into shared_cache as c (cache_key, value, expires)
values ($1, (extract(epoch from clock_timestamp()) + $2::float8)::text, now() + interval '30 days')
on conflict (cache_key) do update set
  value = (greatest(c.value::float8, extract(epoch from clock_timestamp())::float8) + $2::float8)::text,
  expires = excluded.expires
returning greatest(0, value::float8 - $2::float8 - extract(epoch from clock_timestamp())::float8)::float8`
)
