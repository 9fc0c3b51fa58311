"""The consistency conditions of clause 3.3.2, each as a query for the rows that break it."""

from __future__ import annotations

from typing import Any

CONDITIONS = {
    1: """SELECT w_id, w_ytd, total FROM warehouse
        JOIN (SELECT d_w_id, sum(d_ytd) AS total FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id
        WHERE w_ytd <> total""",
    2: """SELECT d_w_id, d_id, d_next_o_id, newest, undelivered FROM district
        JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM orders GROUP BY o_w_id, o_d_id) AS o
            ON o_w_id = d_w_id AND o_d_id = d_id
        LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS undelivered FROM new_order
            GROUP BY no_w_id, no_d_id) AS n ON no_w_id = d_w_id AND no_d_id = d_id
        WHERE d_next_o_id - 1 <> newest OR undelivered <> newest""",
    3: """SELECT no_w_id, no_d_id, min(no_o_id), max(no_o_id), count(*) FROM new_order
        GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)""",
    4: """SELECT o_w_id, o_d_id, lines, found FROM
        (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines FROM orders GROUP BY o_w_id, o_d_id) AS o
        LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS found FROM order_line GROUP BY ol_w_id, ol_d_id) AS l
            ON ol_w_id = o_w_id AND ol_d_id = o_d_id
        WHERE lines <> coalesce(found, 0)""",
    5: """SELECT o_w_id, o_d_id, o_id, o_carrier_id, no_o_id FROM orders
        FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
        WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)""",
    6: """SELECT o_w_id, o_d_id, o_id, o_ol_cnt, found FROM orders
        LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS found FROM order_line
            GROUP BY ol_w_id, ol_d_id, ol_o_id) AS l
            ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
        WHERE o_ol_cnt <> coalesce(found, 0)""",
    7: """SELECT ol_w_id, ol_d_id, ol_o_id, ol_number FROM order_line
        LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
        WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)""",
    8: """SELECT w_id, w_ytd, paid FROM warehouse
        JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id) AS h ON h_w_id = w_id
        WHERE w_ytd <> paid""",
    9: """SELECT d_w_id, d_id, d_ytd, paid FROM district
        JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY h_w_id, h_d_id) AS h
            ON h_w_id = d_w_id AND h_d_id = d_id
        WHERE d_ytd <> paid""",
    10: """SELECT c_w_id, c_d_id, c_id, c_balance, bought, paid FROM customer
        LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS bought FROM orders JOIN order_line
            ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL
            GROUP BY o_w_id, o_d_id, o_c_id) AS o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
        LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history
            GROUP BY h_c_w_id, h_c_d_id, h_c_id) AS h
            ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
        WHERE c_balance <> coalesce(bought, 0) - coalesce(paid, 0)""",
    11: """SELECT o_w_id, o_d_id, made, waiting, delivered FROM
        (SELECT o_w_id, o_d_id, count(*) AS made, count(o_carrier_id) AS delivered FROM orders
            GROUP BY o_w_id, o_d_id) AS o
        LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS waiting FROM new_order GROUP BY no_w_id, no_d_id) AS n
            ON no_w_id = o_w_id AND no_d_id = o_d_id
        WHERE made - coalesce(waiting, 0) <> delivered""",
    12: """SELECT c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, bought FROM customer
        LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS bought FROM orders JOIN order_line
            ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id WHERE ol_delivery_d IS NOT NULL
            GROUP BY o_w_id, o_d_id, o_c_id) AS o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
        WHERE c_balance + c_ytd_payment <> coalesce(bought, 0)""",
}
"""By their numbers in the specification. Condition 11 speaks of a new database, where 2,100 orders of each
district are delivered; here it is said of those that are delivered, however many, so that it holds later."""


def broken(connection: Any) -> dict[int, list[Any]]:
    """The conditions that do not hold, with some rows that break each. Ends the connection's transaction."""
    found = {}
    cursor = connection.cursor()
    for number, query in CONDITIONS.items():
        cursor.execute(query + " LIMIT 5")
        rows = cursor.fetchall()
        if rows:
            found[number] = rows
    connection.rollback()
    return found
