//! The number of the client's connection, and what is stored that asks for it.

use super::{Topic, When};

pub(super) const TOPICS: &[Topic] = &[Topic {
    name: "the number of a connection",
    when: When::Always,
    kinds: &[
        "SET @number = CONNECTION_ID() ;; SELECT @number = {id} AS mine",
        "SET @number = CONNECTION_ID() + 3 ;; SELECT @number - CONNECTION_ID()",
        "SELECT @@pseudo_thread_id = {id} AS mine",
        "SELECT @@session . pseudo_thread_id = {id} AS mine, @@local/**/.`pseudo_thread_id` = {id} AS too",
        "SELECT `connection_id`() = {id} AS mine",
        "PREPARE number FROM 'SELECT CONNECTION_ID() = {id} AS mine' ;; EXECUTE number",
        "INSERT INTO m (a) VALUES (CONNECTION_ID() = {id}) ;; SELECT a FROM m ORDER BY id DESC LIMIT 1",
        "SELECT 1 FROM t GROUP BY CONNECTION_ID() ORDER BY CONNECTION_ID()",
        "CREATE TABLE IF NOT EXISTS numbers AS SELECT CONNECTION_ID(), -CONNECTION_ID() AS less ;; \
         SHOW COLUMNS FROM numbers",
        "CREATE OR REPLACE VIEW v_number AS SELECT CONNECTION_ID() AS id ;; SHOW CREATE VIEW v_number",
        "DROP PROCEDURE IF EXISTS p_number ;; CREATE PROCEDURE p_number() SELECT CONNECTION_ID() ;; \
         SHOW CREATE PROCEDURE p_number",
        ":prepare {p} SELECT CONNECTION_ID() = ? AS mine ;; :execute {p} int:-{n}",
        "KILL QUERY {id} + 0",
    ],
}];
