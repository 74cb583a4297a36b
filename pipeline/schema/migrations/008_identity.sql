-- The identity group of a card: all that show the same thing. Same bytes do; the same
-- art does when name, border and what was read of the collector line are the same, too,
-- since reprints share their art.
create function identity_group(seed bigint) returns setof bigint language sql stable rows 2 as $$
with recursive member(id) as (
  select seed
  union
  select t.id from member m join card c on c.id = m.id cross join lateral (
    select twin.id from card twin where twin.md5_checksum = c.md5_checksum
    union all
    select same.card_id from image_evidence own
      join image_evidence same on same.artbox_phash = own.artbox_phash and same.card_id <> own.card_id
        and same.layout_class is not distinct from own.layout_class
        and same.collector_set_code is not distinct from own.collector_set_code
        and same.collector_number is not distinct from own.collector_number
      join card other on other.id = same.card_id and other.content_phash = same.content_hash
        and lower(other.name) = lower(c.name) and other.card_type = c.card_type
    where own.card_id = c.id and own.content_hash = c.content_phash and own.artbox_phash is not null
  ) t
)
select id from member
$$;
---- create above / drop below ----
drop function identity_group(bigint);
