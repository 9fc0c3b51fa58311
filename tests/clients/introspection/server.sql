-- Questions about the server, databases, roles, functions and sessions, of the kind that database browsers
-- ask. Each ends with a semicolon. A real PostgreSQL must give the same columns; rows are its own.

-- settings of a new session
SELECT set_config('bytea_output', 'hex', false) FROM pg_catalog.pg_show_all_settings() WHERE name = 'bytea_output';

-- settings of a new session, from the view
SELECT set_config(name, 'off', false) FROM pg_catalog.pg_settings WHERE name = 'default_transaction_read_only';

-- the database that one is in
SELECT db.oid AS did, db.datname, db.datallowconn, pg_catalog.pg_encoding_to_char(db.encoding) AS serverencoding,
  pg_catalog.has_database_privilege(db.oid, 'CREATE') AS cancreate, datistemplate
FROM pg_catalog.pg_database db WHERE db.datname = current_database();

-- all databases, one's own first
SELECT n.oid::bigint AS id, datname AS name, d.description, datistemplate AS is_template,
  datallowconn AS allow_connections, pg_catalog.pg_get_userbyid(n.datdba) AS "owner"
FROM pg_catalog.pg_database n LEFT JOIN pg_catalog.pg_shdescription d ON n.oid = d.objoid
ORDER BY CASE WHEN datname = pg_catalog.current_database() THEN -1::bigint ELSE n.oid::bigint END;

-- databases with sizes, tablespaces and settings
SELECT db.oid AS did, db.datname AS name, db.dattablespace AS spcoid, spcname, datallowconn,
  pg_catalog.pg_encoding_to_char(encoding) AS encoding, pg_catalog.pg_get_userbyid(datdba) AS datowner,
  (SELECT pg_catalog.current_setting('lc_collate', true)) AS collation, datconnlimit,
  pg_catalog.pg_database_size(db.oid) AS size, descr.description AS comments,
  (SELECT array_agg(provider || '=' || label) FROM pg_catalog.pg_shseclabel sl WHERE sl.objoid = db.oid) AS labels
FROM pg_catalog.pg_database db
LEFT OUTER JOIN pg_catalog.pg_tablespace ta ON db.dattablespace = ta.oid
LEFT OUTER JOIN pg_catalog.pg_shdescription descr
  ON (db.oid = descr.objoid AND descr.classoid = 'pg_database'::regclass)
WHERE db.datallowconn ORDER BY datname;

-- who one is
SELECT roles.oid AS id, roles.rolname AS name, roles.rolsuper AS is_superuser,
  CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreaterole END AS can_create_role,
  CASE WHEN roles.rolsuper THEN true ELSE roles.rolcreatedb END AS can_create_db,
  CASE WHEN 'pg_signal_backend' = ANY (ARRAY(WITH RECURSIVE cte AS (
      SELECT pg_roles.oid, pg_roles.rolname FROM pg_roles WHERE pg_roles.oid = roles.oid
      UNION ALL
      SELECT m.roleid, pgr.rolname FROM cte cte_1
      JOIN pg_auth_members m ON m.member = cte_1.oid JOIN pg_roles pgr ON pgr.oid = m.roleid)
    SELECT rolname FROM cte)) THEN true ELSE false END AS can_signal_backend
FROM pg_catalog.pg_roles AS roles WHERE rolname = current_user;

-- roles with members, settings and comments
SELECT r.oid, r.*, r.rolname || '' AS shown, pg_catalog.shobj_description(r.oid, 'pg_authid') AS description,
  ARRAY(SELECT CASE WHEN am.admin_option THEN '1' ELSE '0' END || rm.rolname
    FROM (SELECT * FROM pg_catalog.pg_auth_members WHERE member = r.oid) am
    LEFT JOIN pg_catalog.pg_roles rm ON (rm.oid = am.roleid) ORDER BY rm.rolname) AS rolmembership
FROM pg_catalog.pg_roles r ORDER BY r.rolname;

-- settings of roles and databases
SELECT s.setdatabase, s.setrole, s.setconfig, unnest(s.setconfig) AS one FROM pg_catalog.pg_db_role_setting s;

-- how a session is secured
SELECT gss_authenticated AS "gss", encrypted, (SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()) AS ssl
FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_backend_pid();

-- keywords
SELECT string_agg(word, ',') AS words FROM pg_catalog.pg_get_keywords()
WHERE word <> ALL ('{abs,select,from,where}'::text[]);

-- a screen of figures, as JSON
SELECT 'session_stats' AS chart_name, row_to_json(t) AS chart_data
FROM (SELECT
  (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = current_database()) AS "Total",
  (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE state = 'active'
    AND datname = current_database()) AS "Active") t
UNION ALL
SELECT 'tps_stats' AS chart_name, row_to_json(t) AS chart_data
FROM (SELECT
  (SELECT sum(xact_commit) + sum(xact_rollback) FROM pg_catalog.pg_stat_database
    WHERE datname = current_database()) AS "Transactions",
  (SELECT sum(tup_inserted) FROM pg_catalog.pg_stat_database) AS "Inserts") t;

-- sessions
SELECT pid, datname, usename, application_name, client_addr,
  pg_catalog.to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS TZ') AS backend_start, state,
  wait_event_type || ': ' || wait_event AS wait_event,
  array_to_string(pg_catalog.pg_blocking_pids(pid), ', ') AS blocking_pids, query,
  pg_catalog.to_char(state_change, 'YYYY-MM-DD HH24:MI:SS TZ') AS state_change,
  backend_type, CASE WHEN state = 'active' THEN now() - query_start END AS running,
  EXTRACT(epoch FROM now() - backend_start)::int AS age_s
FROM pg_catalog.pg_stat_activity WHERE datname = current_database() ORDER BY pid;

-- locks with what they are on
SELECT pid, locktype, datname, relation::regclass, page, tuple, virtualxid, transactionid, classid::regclass, objid,
  virtualtransaction, mode, granted, fastpath
FROM pg_catalog.pg_locks l LEFT OUTER JOIN pg_catalog.pg_database d ON (l.database = d.oid) ORDER BY pid, locktype;

-- who waits for whom
SELECT blocked.pid AS blocked_pid, blocked_activity.usename AS blocked_user, blocking.pid AS blocking_pid,
  blocking_activity.query AS blocking_statement
FROM pg_catalog.pg_locks blocked
JOIN pg_catalog.pg_stat_activity blocked_activity ON blocked_activity.pid = blocked.pid
JOIN pg_catalog.pg_locks blocking ON blocking.locktype = blocked.locktype
  AND blocking.database IS NOT DISTINCT FROM blocked.database
  AND blocking.relation IS NOT DISTINCT FROM blocked.relation
  AND blocking.transactionid IS NOT DISTINCT FROM blocked.transactionid
  AND blocking.objid IS NOT DISTINCT FROM blocked.objid AND blocking.pid <> blocked.pid
JOIN pg_catalog.pg_stat_activity blocking_activity ON blocking_activity.pid = blocking.pid
WHERE NOT blocked.granted;

-- the oldest transaction that is open
SELECT l.transactionid::varchar::bigint AS transaction_id FROM pg_catalog.pg_locks l
WHERE l.transactionid IS NOT NULL ORDER BY pg_catalog.age(l.transactionid) DESC LIMIT 1;

-- the number of one's own transaction
SELECT CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL
  ELSE (pg_catalog.txid_current() % (2^32)::bigint)::varchar::bigint END AS current_txid;

-- functions of a schema
SELECT p.oid AS poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, l.lanname,
  pg_catalog.pg_get_function_arguments(p.oid) AS args, pg_catalog.pg_get_function_result(p.oid) AS result,
  d.description
FROM pg_catalog.pg_proc p
LEFT OUTER JOIN pg_catalog.pg_language l ON l.oid = p.prolang
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid
WHERE p.pronamespace = 2200 ORDER BY p.proname;

-- names of functions, to complete words
SELECT DISTINCT p.proname, p.prokind, pg_catalog.pg_get_function_identity_arguments(p.oid) AS arguments,
  pg_catalog.format_type(p.prorettype, NULL) AS result, p.provolatile, p.proretset
FROM pg_catalog.pg_proc p WHERE pg_catalog.pg_function_is_visible(p.oid) AND p.proname LIKE 'upper' ORDER BY 1, 3;

-- source of a function, by its name
SELECT pg_catalog.pg_get_functiondef(p.oid) AS source FROM pg_catalog.pg_proc p WHERE p.proname = 'nosuch';

-- aggregates
SELECT p.oid, p.proname, a.aggtransfn::regproc, a.aggfinalfn, format_type(a.aggtranstype, NULL) AS state_type, a.agginitval
FROM pg_catalog.pg_aggregate a JOIN pg_catalog.pg_proc p ON p.oid = a.aggfnoid WHERE p.pronamespace = 2200;

-- operators
SELECT op.oid, op.oprname, lt.typname AS lefttype, rt.typname AS righttype, et.typname AS resulttype, op.oprcode
FROM pg_catalog.pg_operator op
LEFT JOIN pg_catalog.pg_type lt ON lt.oid = op.oprleft
LEFT JOIN pg_catalog.pg_type rt ON rt.oid = op.oprright
JOIN pg_catalog.pg_type et ON et.oid = op.oprresult
WHERE op.oprnamespace = 2200 ORDER BY op.oprname;

-- casts
SELECT c.oid, format_type(c.castsource, NULL) AS source, format_type(c.casttarget, NULL) AS target, c.castcontext,
  c.castmethod, p.proname
FROM pg_catalog.pg_cast c LEFT JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc WHERE c.oid > 16384;

-- extensions, with their tables
SELECT e.oid, cfg.tbls, n.nspname AS schema_name, e.* FROM pg_catalog.pg_extension e
JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
LEFT JOIN (SELECT ARRAY_AGG(ns.nspname || '.' || cls.relname) AS tbls, oid_ext
  FROM (SELECT unnest(e1.extconfig) AS oid, e1.oid AS oid_ext FROM pg_catalog.pg_extension e1) c
  JOIN pg_catalog.pg_class cls ON cls.oid = c.oid JOIN pg_catalog.pg_namespace ns ON ns.oid = cls.relnamespace
  GROUP BY oid_ext) cfg ON cfg.oid_ext = e.oid
ORDER BY e.oid;

-- extensions that one could have
SELECT a.name, a.installed_version, array_agg(av.version) AS version, array_agg(av.schema) AS schema,
  array_agg(av.superuser) AS superuser, a.comment
FROM pg_catalog.pg_available_extensions a
LEFT JOIN pg_catalog.pg_available_extension_versions av ON (a.name = av.name)
GROUP BY a.name, a.installed_version, a.comment ORDER BY a.name;

-- event triggers
SELECT e.oid, e.xmin, e.evtname AS name, pg_catalog.upper(e.evtevent) AS eventname,
  pg_catalog.pg_get_userbyid(e.evtowner) AS eventowner, e.evtenabled AS enabled, e.evtfoid AS eventfuncoid,
  p.proname AS eventfunname, array_to_string(array(SELECT quote_literal(x) FROM unnest(evttags) AS t(x)), ', ') AS whenn
FROM pg_catalog.pg_event_trigger e LEFT JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid ORDER BY e.evtname;

-- foreign data
SELECT srv.oid, srv.srvname AS name, fdw.fdwname, srvtype, srvversion, srvoptions,
  (SELECT string_agg(opt.option_name || '=' || opt.option_value, ', ')
    FROM pg_catalog.pg_options_to_table(srv.srvoptions) opt) AS options
FROM pg_catalog.pg_foreign_server srv
LEFT OUTER JOIN pg_catalog.pg_foreign_data_wrapper fdw ON fdw.oid = srv.srvfdw ORDER BY srvname;

-- tablespaces with places and options
SELECT ts.oid, spcname AS name, spcoptions, pg_catalog.pg_get_userbyid(spcowner) AS owner,
  pg_catalog.pg_tablespace_location(ts.oid) AS spclocation, array_to_string(ts.spcacl::text[], ', ') AS acl,
  pg_catalog.shobj_description(ts.oid, 'pg_tablespace') AS description
FROM pg_catalog.pg_tablespace ts ORDER BY name;

-- languages, access methods, collations
SELECT l.lanname AS name, 'l' AS kind FROM pg_catalog.pg_language l
UNION ALL SELECT am.amname, 'a' FROM pg_catalog.pg_am am
UNION ALL SELECT c.collname, 'c' FROM pg_catalog.pg_collation c
UNION ALL SELECT o.opcname, 'o' FROM pg_catalog.pg_opclass o
UNION ALL SELECT f.opfname, 'f' FROM pg_catalog.pg_opfamily f ORDER BY 2, 1;

-- what depends on a table
SELECT DISTINCT dep.deptype, dep.classid, cl.relkind, ad.adbin,
  CASE WHEN cl.relkind IS NOT NULL THEN cl.relkind::text || coalesce(dep.refobjsubid::text, '')
    WHEN tg.oid IS NOT NULL THEN 'T'::text WHEN ty.oid IS NOT NULL THEN 'y'::text WHEN ns.oid IS NOT NULL THEN 'n'::text
    WHEN pr.oid IS NOT NULL THEN 'p'::text WHEN rw.oid IS NOT NULL THEN 'R'::text ELSE '' END AS type,
  coalesce(coc.relname, clrw.relname) AS ownertable,
  coalesce(cl.relname, co.conname, pr.proname, tg.tgname, ty.typname, rw.rulename, ns.nspname) AS refname
FROM pg_catalog.pg_depend dep
LEFT JOIN pg_catalog.pg_class cl ON dep.objid = cl.oid
LEFT JOIN pg_catalog.pg_proc pr ON dep.objid = pr.oid
LEFT JOIN pg_catalog.pg_trigger tg ON dep.objid = tg.oid
LEFT JOIN pg_catalog.pg_type ty ON dep.objid = ty.oid
LEFT JOIN pg_catalog.pg_constraint co ON dep.objid = co.oid
LEFT JOIN pg_catalog.pg_class coc ON co.conrelid = coc.oid
LEFT JOIN pg_catalog.pg_rewrite rw ON dep.objid = rw.oid
LEFT JOIN pg_catalog.pg_class clrw ON clrw.oid = rw.ev_class
LEFT JOIN pg_catalog.pg_namespace ns ON dep.objid = ns.oid
LEFT JOIN pg_catalog.pg_attrdef ad ON ad.oid = dep.objid
WHERE dep.refobjid = 'lib_loan'::regclass ORDER BY refname;

-- grants of the standard
SELECT g.grantor, g.grantee, g.table_schema, g.table_name, g.privilege_type, g.is_grantable, g.with_hierarchy
FROM information_schema.role_table_grants g WHERE g.table_name = 'lib_book' ORDER BY g.privilege_type;

-- settings, by category
SELECT name, category, setting, unit, vartype, min_val, max_val, enumvals, context, source, boot_val, reset_val,
  short_desc, extra_desc, pending_restart
FROM pg_catalog.pg_settings WHERE name IN ('TimeZone', 'DateStyle', 'search_path') ORDER BY lower(name);

-- publications and subscriptions
SELECT p.oid, p.pubname, p.puballtables, pg_catalog.pg_get_userbyid(p.pubowner) AS owner,
  (SELECT count(*) FROM pg_catalog.pg_publication_tables pt WHERE pt.pubname = p.pubname) AS tables,
  (SELECT count(*) FROM pg_catalog.pg_subscription) AS subscriptions
FROM pg_catalog.pg_publication p;

-- replication
SELECT r.pid, r.client_addr, r.state, r.sync_state, r.replay_lag,
  (SELECT count(*) FROM pg_catalog.pg_replication_slots) AS slots FROM pg_catalog.pg_stat_replication r;

-- statistics of use
SELECT relname, seq_scan, idx_scan, n_tup_ins, n_tup_upd, n_tup_del, n_live_tup, last_vacuum, last_autoanalyze,
  pg_catalog.pg_size_pretty(pg_catalog.pg_relation_size(relid)) AS size
FROM pg_catalog.pg_stat_user_tables WHERE relname LIKE 'lib%' ORDER BY relname;

-- statistics of the server
SELECT (SELECT count(*) FROM pg_catalog.pg_stat_bgwriter) AS writers, blks_hit, blks_read, tup_returned, tup_fetched,
  deadlocks, temp_bytes, stats_reset
FROM pg_catalog.pg_stat_database WHERE datname = current_database();

-- prepared statements, cursors and prepared transactions
SELECT (SELECT count(*) FROM pg_catalog.pg_prepared_statements) AS statements,
  (SELECT count(*) FROM pg_catalog.pg_cursors) AS cursors, p.gid, p.database, p.owner
FROM pg_catalog.pg_prepared_xacts p;
