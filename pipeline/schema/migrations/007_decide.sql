-- What people settled teaches what a set's symbol looks like; and a person's vote
-- finds its card's whole identity group.
create index card_inferred on card (inferred_canonical_card_id) where inferred_canonical_card_id is not null;
create index archived_card_printing_tag_agent on archived_card_printing_tag (card_id, anonymous_id);
---- create above / drop below ----
drop index archived_card_printing_tag_agent;
drop index card_inferred;
