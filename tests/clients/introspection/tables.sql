-- Questions about tables and what belongs to them, of the kind that database browsers ask. Each ends with a
-- semicolon; the comment before it says what it is for. A real PostgreSQL must give the same rows.

-- schemas, with comments and owners
SELECT n.oid, n.nspname AS name, n.xmin::text::bigint > 0 AS has_state, d.description,
  pg_catalog.pg_get_userbyid(n.nspowner) = current_user AS mine
FROM pg_catalog.pg_namespace n
LEFT JOIN pg_catalog.pg_description d
  ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_catalog.pg_namespace'::regclass
WHERE n.nspname LIKE 'lib%' ORDER BY n.nspname;

-- relations of a schema, with comments, options and partitions
SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.relispartition, c.reloptions, c.relhasindex, c.relam,
  c.reltablespace, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
  pg_catalog.pg_get_partkeydef(c.oid) AS partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d
  ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'public') AND c.relkind NOT IN ('i', 'I', 'c')
  AND c.relname LIKE 'lib%'
ORDER BY c.relname;

-- tables with what a tree shows: counts of triggers, of parents, whether they are inherited
SELECT rel.oid, rel.relname AS name,
  (SELECT count(*) FROM pg_catalog.pg_trigger WHERE tgrelid = rel.oid AND tgisinternal = FALSE) AS triggercount,
  (SELECT count(*) FROM pg_catalog.pg_inherits WHERE inhrelid = rel.oid LIMIT 1) AS is_inherits,
  (SELECT count(*) FROM pg_catalog.pg_inherits WHERE inhparent = rel.oid LIMIT 1) AS is_inherited,
  (SELECT array_agg(inhparent::bigint ORDER BY inhseqno)::varchar FROM pg_catalog.pg_inherits
    WHERE rel.oid = inhrelid) AS ancestors,
  des.description
FROM pg_catalog.pg_class rel
LEFT OUTER JOIN pg_catalog.pg_description des
  ON (des.objoid = rel.oid AND des.objsubid = 0 AND des.classoid = 'pg_class'::regclass)
WHERE rel.relkind IN ('r', 's', 't', 'p') AND rel.relname LIKE 'lib%' AND NOT rel.relispartition
ORDER BY rel.relname;

-- properties of a table: where it is, who owns it, what is set
SELECT rel.relname AS name, rel.reltablespace AS spcoid,
  (CASE WHEN length(spc.spcname::text) > 0 OR rel.relkind = 'p' THEN spc.spcname ELSE
    (SELECT sp.spcname FROM pg_catalog.pg_database dtb
      JOIN pg_catalog.pg_tablespace sp ON dtb.dattablespace = sp.oid
      WHERE dtb.datname = current_database()) END) AS spcname,
  nsp.nspname AS schema, pg_catalog.pg_get_userbyid(rel.relowner) AS relowner, rel.relkind, rel.relrowsecurity,
  (CASE WHEN rel.relpersistence = 'u' THEN true ELSE false END) AS unlogged,
  substring(array_to_string(rel.reloptions, ',') FROM 'fillfactor=([0-9]*)') AS fillfactor,
  substring(array_to_string(rel.reloptions, ',') FROM 'autovacuum_enabled=([a-z|0-9]*)')::boolean AS autovacuum,
  typ.typname, con.conname, con.conkey, rel.relreplident,
  (SELECT count(*) FROM pg_catalog.pg_attribute att WHERE att.attrelid = rel.oid AND att.attnum > 0
    AND NOT att.attisdropped) AS columns,
  array(SELECT DISTINCT s.spcname FROM pg_catalog.pg_tablespace s WHERE s.spcname = 'pg_default') AS spaces
FROM pg_catalog.pg_class rel
JOIN pg_catalog.pg_namespace nsp ON nsp.oid = rel.relnamespace
LEFT OUTER JOIN pg_catalog.pg_tablespace spc ON spc.oid = rel.reltablespace
LEFT OUTER JOIN pg_catalog.pg_constraint con ON con.conrelid = rel.oid AND con.contype = 'p'
LEFT JOIN pg_catalog.pg_type typ ON rel.reloftype = typ.oid
WHERE rel.relname = 'lib_loan';

-- columns with types, defaults, identity, comments
SELECT c.relname, a.attname, a.attnum, a.attnotnull, a.attidentity, a.attgenerated, a.atthasdef, a.attislocal,
  a.attndims, a.attacl, a.attfdwoptions, a.attoptions, a.attstorage, a.attcollation,
  pg_catalog.format_type(a.atttypid, a.atttypmod) AS type_spec,
  pg_catalog.format_type(a.atttypid, NULL) AS type_name,
  CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) END AS def_value,
  dsc.description, dep.deptype
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
LEFT JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
LEFT JOIN pg_catalog.pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i'
  AND dep.refobjsubid = a.attnum AND dep.classid = dep.refclassid
WHERE NOT a.attisdropped AND a.attnum > 0 AND a.attname <> 'place'
  AND c.oid = ANY (ARRAY['lib_book'::regclass, 'lib_author'::regclass, 'lib_loan'::regclass]::oid[])
ORDER BY c.relname, a.attnum;

-- columns of what changed since a transaction
WITH t AS (
  SELECT DISTINCT t.oid AS table_id, t.relname AS table_name
  FROM pg_catalog.pg_class t, pg_catalog.pg_attribute a
  WHERE t.relnamespace = 2200::oid AND t.relkind IN ('r', 'm', 'v', 'f', 'p')
    AND (pg_catalog.age(a.xmin) <= coalesce(nullif(greatest(pg_catalog.age('1'::varchar::xid), -1), -1), 2147483647)
      OR pg_catalog.age(t.xmin) <= coalesce(nullif(greatest(pg_catalog.age('1'::varchar::xid), -1), -1), 2147483647))
    AND a.attrelid = t.oid AND t.relname IN ('lib_author', 'lib_loan')
)
SELECT t.table_name, c.attnum AS column_position, c.attname AS column_name, c.atttypmod AS type_mod,
  c.attndims AS dimensions_number, pg_catalog.format_type(c.atttypid, c.atttypmod) AS type_spec,
  c.attnotnull AS mandatory, pg_catalog.pg_get_expr(d.adbin, t.table_id) AS column_default_expression,
  NOT c.attislocal AS column_is_inherited, c.attisdropped AS column_is_dropped, c.attidentity AS identity_kind
FROM t JOIN pg_catalog.pg_attribute c ON t.table_id = c.attrelid
LEFT JOIN pg_catalog.pg_attrdef d ON (c.attrelid, c.attnum) = (d.adrelid, d.adnum)
WHERE c.attnum > 0 ORDER BY t.table_name, c.attnum;

-- types of columns that are not built in, with their elements
SELECT att.attname AS name, format_type(ty.oid, NULL) AS datatype, tn.nspname AS typnspname,
  et.typname AS elemtypname, ty.typstorage AS defaultstorage, cl.relname,
  (SELECT count(1) FROM pg_catalog.pg_type t2 WHERE t2.typname = ty.typname) > 1 AS isdup,
  CASE WHEN length(coll.collname::text) > 0 AND length(nspc.nspname::text) > 0
    THEN concat(quote_ident(nspc.nspname), '.', quote_ident(coll.collname)) ELSE '' END AS collspcname,
  EXISTS(SELECT 1 FROM pg_catalog.pg_constraint WHERE conrelid = att.attrelid AND contype = 'f'
    AND att.attnum = ANY(conkey)) AS is_fk,
  (CASE WHEN (att.attidentity IN ('a', 'd')) THEN 'i' WHEN (att.attgenerated IN ('s')) THEN 'g' ELSE 'n' END)
    AS colconstype
FROM pg_catalog.pg_attribute att
JOIN pg_catalog.pg_type ty ON ty.oid = att.atttypid
JOIN pg_catalog.pg_namespace tn ON tn.oid = ty.typnamespace
JOIN pg_catalog.pg_class cl ON cl.oid = att.attrelid
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = ty.typelem
LEFT OUTER JOIN pg_catalog.pg_collation coll ON att.attcollation = coll.oid
LEFT OUTER JOIN pg_catalog.pg_namespace nspc ON coll.collnamespace = nspc.oid
WHERE att.attrelid = 'public.lib_book'::regclass AND att.attnum > 0 AND att.attisdropped IS FALSE
  AND att.attname <> 'place' ORDER BY att.attnum;

-- keys, foreign keys and checks by their definitions
SELECT c.conname, c.contype, t.relname AS tabrelname, rn.nspname AS refnamespace, d.description, c.condeferrable,
  c.condeferred, c.convalidated, c.confupdtype, c.confdeltype, c.confmatchtype, c.conkey, c.confkey,
  CASE WHEN c.contype = 'c' THEN "substring"(pg_catalog.pg_get_constraintdef(c.oid), 7) ELSE NULL END AS source,
  pg_catalog.pg_get_constraintdef(c.oid, true) AS definition,
  pg_catalog.pg_get_expr(c.conbin, t.oid) IS NOT NULL AS has_expression
FROM pg_catalog.pg_constraint c
INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid
LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid
LEFT OUTER JOIN pg_catalog.pg_namespace rn ON rn.oid = rt.relnamespace
LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0
  AND d.classoid = 'pg_constraint'::regclass
WHERE t.relname LIKE 'lib%' ORDER BY c.conname;

-- constraints with the operators of exclusion
SELECT t.relname, con.oid::bigint > 0 AS con_id, con.xmin::varchar::bigint > 0 AS con_state_id, conname AS con_name,
  contype AS con_kind, conkey AS con_columns, confrelid::regclass::text AS ref_table, connoinherit AS no_inherit,
  confkey AS ref_columns, conexclop::int[] AS excl_operators,
  array(SELECT unnest::regoper::varchar FROM unnest(conexclop)) AS excl_operators_str
FROM pg_catalog.pg_constraint con JOIN pg_catalog.pg_class t ON con.conrelid = t.oid
WHERE t.relkind IN ('r', 'v', 'f', 'p') AND t.relname LIKE 'lib%' ORDER BY con_name;

-- who is referred to, column by column
SELECT ct.conname, ns.nspname || '.' || cl.relname AS referring, a.attname, fns.nspname || '.' || fcl.relname AS referred,
  fa.attname AS referred_column, k.n AS position
FROM (SELECT oid, conname, conrelid, confrelid, conkey, confkey, generate_subscripts(conkey, 1) AS n
  FROM pg_catalog.pg_constraint WHERE contype = 'f') AS k
JOIN pg_catalog.pg_constraint ct ON ct.oid = k.oid
JOIN pg_catalog.pg_class cl ON cl.oid = k.conrelid
JOIN pg_catalog.pg_namespace ns ON ns.oid = cl.relnamespace
JOIN pg_catalog.pg_class fcl ON fcl.oid = k.confrelid
JOIN pg_catalog.pg_namespace fns ON fns.oid = fcl.relnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = k.conkey[k.n]
JOIN pg_catalog.pg_attribute fa ON fa.attrelid = k.confrelid AND fa.attnum = k.confkey[k.n]
WHERE cl.relname LIKE 'lib%' ORDER BY ct.conname, k.n;

-- indexes with conditions, expressions, sizes and uses
SELECT i.indkey AS keys, c.relname, c.relam, am.amname, tc.relname AS tabrelname, dsc.description, i.indisunique,
  i.indisprimary, i.indisclustered, i.indnullsnotdistinct, i.indnkeyatts,
  pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NOT NULL AS has_predicate,
  pg_catalog.pg_get_indexdef(i.indexrelid) AS definition,
  pg_catalog.pg_relation_size(i.indexrelid) >= 0 AS index_rel_size,
  pg_catalog.pg_stat_get_numscans(i.indexrelid) >= 0 AS index_num_scans
FROM pg_catalog.pg_index i
INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
INNER JOIN pg_catalog.pg_class tc ON tc.oid = i.indrelid
INNER JOIN pg_catalog.pg_am am ON am.oid = c.relam
LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid = dsc.objoid
WHERE tc.relname LIKE 'lib%' ORDER BY tc.relname, c.relname;

-- columns of indexes with collations and classes of operators
SELECT ind_stor.relname, k AS col_idx, k <= ind_head.indnkeyatts AS in_key, ind_head.indkey[k - 1] AS column_position,
  ind_head.indoption[k - 1] AS column_options, colln.nspname AS collation_schema, collname AS collation_str,
  CASE WHEN opcdefault THEN NULL ELSE opcn.nspname END AS opclass_schema,
  CASE WHEN opcdefault THEN NULL ELSE opcname END AS opclass_str,
  CASE WHEN indexprs IS NULL THEN NULL WHEN ind_head.indkey[k - 1] = 0
    THEN chr(27) || pg_catalog.pg_get_indexdef(ind_head.indexrelid, k::int, true)
    ELSE pg_catalog.pg_get_indexdef(ind_head.indexrelid, k::int, true) END AS expression
FROM pg_catalog.pg_index ind_head
JOIN pg_catalog.pg_class ind_stor ON ind_stor.oid = ind_head.indexrelid
CROSS JOIN unnest(ind_head.indkey) WITH ORDINALITY u(u, k)
LEFT JOIN pg_catalog.pg_collation ON pg_collation.oid = ind_head.indcollation[k - 1]
LEFT JOIN pg_catalog.pg_namespace colln ON collnamespace = colln.oid
LEFT JOIN pg_catalog.pg_opclass ON pg_opclass.oid = ind_head.indclass[k - 1]
LEFT JOIN pg_catalog.pg_namespace opcn ON opcnamespace = opcn.oid
WHERE ind_stor.relname LIKE 'lib%' OR ind_stor.relname LIKE 'crate%' ORDER BY 1, 2;

-- which method an index is of, by the classes of its columns
SELECT tab.relname, ind_stor.relname AS index_name, opcmethod AS access_method_id, count(*)
FROM pg_catalog.pg_class tab
JOIN pg_catalog.pg_index ind_head ON ind_head.indrelid = tab.oid
JOIN pg_catalog.pg_class ind_stor ON tab.relnamespace = ind_stor.relnamespace AND ind_stor.oid = ind_head.indexrelid
LEFT JOIN pg_catalog.pg_opclass ON pg_opclass.oid = ANY(indclass)
WHERE tab.relname IN ('lib_loan', 'crate') GROUP BY 1, 2, 3 ORDER BY 1, 2;

-- views with their rules
SELECT c.relname, c.relkind, r.rulename, r.ev_type, r.is_instead, r.ev_enabled,
  length(pg_catalog.pg_get_viewdef(c.oid, true)) > 20 AS has_text
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_rewrite r ON r.ev_class = c.oid AND r.ev_type = '1'
WHERE c.relname = 'lib_cheap';

-- sequences, with who owns them
SELECT cl.relname AS name, seq.seqstart, seq.seqincrement, seq.seqmin, seq.seqmax, seq.seqcache, seq.seqcycle,
  pg_catalog.format_type(seq.seqtypid, NULL) AS data_type, owner.relname AS of_table, att.attname AS of_column,
  dep.deptype
FROM pg_catalog.pg_class cl
JOIN pg_catalog.pg_sequence seq ON seq.seqrelid = cl.oid
LEFT JOIN pg_catalog.pg_depend dep ON dep.objid = cl.oid AND dep.classid = 'pg_class'::regclass
  AND dep.refclassid = 'pg_class'::regclass AND dep.deptype IN ('a', 'i')
LEFT JOIN pg_catalog.pg_class owner ON owner.oid = dep.refobjid
LEFT JOIN pg_catalog.pg_attribute att ON att.attrelid = owner.oid AND att.attnum = dep.refobjsubid
WHERE cl.relname LIKE 'lib%' AND cl.relkind = 'S' ORDER BY cl.relname;

-- where sequences stand
SELECT schemaname, sequencename, sequenceowner, data_type, start_value, increment_by, last_value
FROM pg_catalog.pg_sequences WHERE sequencename = 'lib_number';

-- triggers, rules and policies: none
SELECT t.tgname, c.relname, pg_catalog.pg_get_triggerdef(t.oid, true) AS definition
FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND c.relname LIKE 'lib%';

-- sizes of tables
SELECT c.relname, pg_catalog.pg_total_relation_size(c.oid) >= pg_catalog.pg_relation_size(c.oid) AS total,
  pg_catalog.pg_size_pretty(pg_catalog.pg_table_size(c.oid) * 0) AS nothing, s.n_dead_tup >= 0 AS dead,
  s.n_live_tup >= 0 AS live
FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = c.oid
WHERE c.relname IN ('lib_book', 'lib_loan') ORDER BY 1;

-- who may do what
SELECT 'relacl' AS deftype, coalesce(gt.rolname, 'PUBLIC') AS grantee, g.rolname AS grantor,
  pg_catalog.array_agg(privilege_type ORDER BY privilege_type) AS privileges,
  pg_catalog.array_agg(is_grantable ORDER BY privilege_type) AS grantable
FROM (SELECT d.grantee, d.grantor, d.is_grantable,
    CASE d.privilege_type WHEN 'CONNECT' THEN 'c' WHEN 'CREATE' THEN 'C' WHEN 'DELETE' THEN 'd' WHEN 'EXECUTE' THEN 'X'
      WHEN 'INSERT' THEN 'a' WHEN 'REFERENCES' THEN 'x' WHEN 'SELECT' THEN 'r' WHEN 'TEMPORARY' THEN 'T'
      WHEN 'TRIGGER' THEN 't' WHEN 'TRUNCATE' THEN 'D' WHEN 'UPDATE' THEN 'w' WHEN 'USAGE' THEN 'U'
      ELSE 'UNKNOWN' END AS privilege_type
  FROM (SELECT rel.relacl FROM pg_catalog.pg_class rel WHERE rel.relname = 'lib_loan') acl,
    pg_catalog.aclexplode(relacl) d) d
LEFT JOIN pg_catalog.pg_roles g ON (d.grantor = g.oid)
LEFT JOIN pg_catalog.pg_roles gt ON (d.grantee = gt.oid)
GROUP BY g.rolname, gt.rolname ORDER BY 2;

-- types of one's own, with what they are of
SELECT t.typname, t.typtype, t.typcategory, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type,
  d.description, pg_catalog.pg_get_userbyid(t.typowner) = current_user AS mine,
  (SELECT array_agg(enumlabel ORDER BY enumsortorder) FROM pg_catalog.pg_enum WHERE enumtypid = t.oid) AS labels
FROM pg_catalog.pg_type t
LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid = t.typelem
LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid
WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c')
  AND (et.typcategory IS NULL OR et.typcategory <> 'C') AND t.typname LIKE '%lib!_s%' ESCAPE '!'
ORDER BY t.typname;

-- the standard's view of tables and columns
SELECT t.table_schema, t.table_name, t.table_type, c.column_name, c.ordinal_position, c.is_nullable, c.data_type,
  c.character_maximum_length, c.numeric_precision, c.numeric_scale, c.is_identity, c.is_generated
FROM information_schema.tables t
JOIN information_schema.columns c USING (table_schema, table_name)
WHERE t.table_name LIKE 'lib%' AND c.column_name <> 'place' ORDER BY 1, 2, 5;

-- the standard's view of foreign keys
SELECT tc.constraint_name, tc.table_name, kcu.column_name, ccu.table_name AS foreign_table_name,
  ccu.column_name AS foreign_column_name, rc.update_rule, rc.delete_rule
FROM information_schema.table_constraints AS tc
JOIN information_schema.key_column_usage AS kcu
  ON tc.constraint_name = kcu.constraint_name AND tc.table_schema = kcu.table_schema
JOIN information_schema.constraint_column_usage AS ccu ON ccu.constraint_name = tc.constraint_name
JOIN information_schema.referential_constraints AS rc ON rc.constraint_name = tc.constraint_name
WHERE tc.constraint_type = 'FOREIGN KEY' AND tc.table_name LIKE 'lib%' ORDER BY 1;

-- columns of relations that are listed by their ids
SELECT src.tbloid, a.attname, array_to_string(a.attoptions, ', ') AS attoptions,
  pg_catalog.format_type(t.oid, a.atttypmod) AS atttypname
FROM unnest('{1259,2615}'::pg_catalog.oid[]) AS src(tbloid)
JOIN pg_catalog.pg_attribute a ON (src.tbloid = a.attrelid) LEFT JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid)
WHERE a.attnum > 0::pg_catalog.int2 AND a.attnum < 4 ORDER BY a.attrelid, a.attnum;

-- where a sequence stands, from itself
SELECT last_value, is_called FROM public.lib_number;

-- all of a sequence
SELECT s.last_value, s.is_called, c.relname FROM lib_number AS s, pg_catalog.pg_class c
WHERE c.oid = 'lib_number'::regclass;

-- names by a pattern with escapes
SELECT relname, relname LIKE 'lib\_%' AS a, relname NOT LIKE 'lib\_b%' AS b, relname ILIKE 'LIB\_B%' AS c,
  relname LIKE '%\\%' AS d, relname LIKE 'lib!_a%' ESCAPE '!' AS e, relname ~~ E'lib\\_l%' AS f,
  relname !~~* 'LIB\_B%' AS g, relname OPERATOR(pg_catalog.~~) 'lib\_b%' AS h,
  relname OPERATOR(pg_catalog.!~~*) 'LIB\_B%' AS i
FROM pg_catalog.pg_class WHERE relname LIKE 'lib\_%' AND relkind = 'r' ORDER BY 1;

-- names by several patterns
SELECT relname, relname LIKE ANY (ARRAY['lib\_b%', 'lib\_a%']) AS a, relname NOT LIKE ALL ('{x,lib\\_b%}'::text[]) AS b,
  relname ILIKE ANY (ARRAY['LIB\_B%', NULL]) AS c, relname LIKE ALL (ARRAY['lib%', NULL]) AS d,
  relname NOT LIKE ANY (ARRAY['lib%', 'lib\_b%']) AS e, relname LIKE ANY (SELECT nspname FROM pg_namespace) AS f
FROM pg_catalog.pg_class WHERE relname LIKE ANY (ARRAY['lib\_%']) AND relkind = 'r' ORDER BY 1;
