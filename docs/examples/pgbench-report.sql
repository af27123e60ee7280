-- Beside the many short transactions, now and then a report that sorts and collects in memory.
SELECT bid, array_length(array_agg(aid ORDER BY filler, aid DESC), 1) FROM pgbench_accounts WHERE aid % 4 = 0 GROUP BY bid;
