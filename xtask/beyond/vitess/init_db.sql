# What mysqlctl runs on a new MariaDB for Vitess: the users that Vitess logs in as, by the Unix socket, without passwords.
SET sql_log_bin = 0;
DROP DATABASE IF EXISTS test;
CREATE OR REPLACE USER 'vt_dba'@'localhost';
GRANT ALL ON *.* TO 'vt_dba'@'localhost' WITH GRANT OPTION;
CREATE OR REPLACE USER 'vt_app'@'localhost';
GRANT ALL ON *.* TO 'vt_app'@'localhost';
CREATE OR REPLACE USER 'vt_appdebug'@'localhost';
GRANT SELECT, SHOW DATABASES, PROCESS ON *.* TO 'vt_appdebug'@'localhost';
CREATE OR REPLACE USER 'vt_allprivs'@'localhost';
GRANT ALL ON *.* TO 'vt_allprivs'@'localhost';
CREATE OR REPLACE USER 'vt_repl'@'%';
GRANT REPLICATION SLAVE ON *.* TO 'vt_repl'@'%';
CREATE OR REPLACE USER 'vt_filtered'@'localhost';
GRANT ALL ON *.* TO 'vt_filtered'@'localhost';
CREATE OR REPLACE USER 'vt_monitoring'@'localhost';
GRANT ALL ON *.* TO 'vt_monitoring'@'localhost';
# {{custom_sql}}
