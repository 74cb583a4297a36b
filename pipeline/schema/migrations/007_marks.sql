-- A pass over a scope that reached the end begins anew: its mark goes back to 0 and
-- says so by its count of passes.
alter table stage_e_full_catalog_cursor add column passes bigint not null default 0;
create index card_scan_log_run on card_scan_log (run_id);
---- create above / drop below ----
drop index card_scan_log_run;
alter table stage_e_full_catalog_cursor drop column passes;
