package schema

// Statements of the envelope's trips.
const (
	// TripOpen returns the newest trip that nobody acknowledged: any open trip gates.
	TripOpen = `/* conveyor:trip-open */
select trip_id, bar from envelope_trip where acknowledged_at is null order by tripped_at desc, id desc limit 1`

	// TripRecord stores a breach.
	TripRecord = `/* conveyor:trip-record */
insert into envelope_trip (trip_id, bar, detail, run_id) values ($1, $2, $3, $4)`

	// TripResolve closes an open trip ($1) with a note ($2); no row means that it is
	// unknown or closed already.
	TripResolve = `/* conveyor:trip-resolve */
update envelope_trip set acknowledged_at = clock_timestamp(), acknowledged_note = $2
where trip_id = $1 and acknowledged_at is null`

	// TripKnown tells an unknown trip from a closed one.
	TripKnown = `/* conveyor:trip-known */ select exists (select from envelope_trip where trip_id = $1)`

	// TripList shows the newest $1 trips, open ones first.
	TripList = `/* conveyor:trip-list */
select trip_id, bar, detail::text as detail, coalesce(run_id, '') as run_id, tripped_at, acknowledged_at,
  coalesce(acknowledged_note, '') as note
from envelope_trip order by (acknowledged_at is null) desc, tripped_at desc, id desc limit $1`
)

// Statements of resume marks and sweep cursors.
const (
	// MarkRead returns the position of a scope's mark, 0 for none.
	MarkRead = `/* conveyor:mark-read */
select coalesce((select position from stage_e_full_catalog_cursor where scope = $1), 0)`

	// MarkAdvance moves a scope's mark forward, never back.
	MarkAdvance = `/* conveyor:mark-advance */
insert into stage_e_full_catalog_cursor as m (scope, position, cards_dispatched) values ($1, $2, $3)
on conflict (scope) do update set position = excluded.position, updated_at = clock_timestamp(),
  cards_dispatched = m.cards_dispatched + excluded.cards_dispatched
where m.position < excluded.position`

	// MarkReset sets a scope's mark, which only a new pass and its user may.
	MarkReset = `/* conveyor:mark-reset */
insert into stage_e_full_catalog_cursor (scope, position) values ($1, $2)
on conflict (scope) do update set position = excluded.position, cards_dispatched = 0, updated_at = clock_timestamp()`

	// CursorRead returns where a sweep's walkers are, and in which lap.
	CursorRead = `/* conveyor:cursor-read */ select position, wrap_count from stage_e_sweep_cursor where name = $1`

	// CursorMove moves a cursor ($1) that is still where it was read ($2, lap $3)
	// to $4; to 0 it wraps. No row means that another walker moved it.
	CursorMove = `/* conveyor:cursor-move */
update stage_e_sweep_cursor set position = $4::bigint, wrap_count = wrap_count + (case when $4::bigint = 0 then 1 else 0 end),
  updated_at = clock_timestamp()
where name = $1 and position = $2 and wrap_count = $3`
)
