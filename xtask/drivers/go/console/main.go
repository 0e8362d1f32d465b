// What a program in Go asks Flifo's console, through go-sql-driver: as text, and prepared.
package main

import (
	"database/sql"
	"fmt"
	"log"
	"os"

	_ "github.com/go-sql-driver/mysql"
)

func main() {
	dsn := fmt.Sprintf("admin:%s@tcp(127.0.0.1:%s)/", os.Getenv("SUITE_PASSWORD"), os.Getenv("SUITE_PORT"))
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	check(db.Query("SELECT * FROM servers WHERE name = 'db1'"))
	check(db.Query("SHOW FULL SERVERS WHERE name = ?", "db1"))
	statement, err := db.Prepare("SHOW FULL SERVERS LIKE ?")
	if err != nil {
		log.Fatal(err)
	}
	for turn := 0; turn < 3; turn++ {
		check(statement.Query("db1"))
	}
	if rows, err := db.Query("SHOW FULL SERVERS WHERE name = ?", "x' OR '1'='1"); err != nil || rows.Next() {
		log.Fatalf("a value is no part of the statement: %v", err)
	}
	if _, err := db.Query("SHOW NONSENSE"); err == nil {
		log.Fatal("there is no such table")
	}
}

// check wants one row, about the first server.
func check(rows *sql.Rows, err error) {
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		log.Fatalf("no row: %v", err)
	}
	values := make([]any, len(columns))
	for at := range values {
		values[at] = new(any)
	}
	if err := rows.Scan(values...); err != nil {
		log.Fatal(err)
	}
	text := func(at int) string { return fmt.Sprintf("%s", *values[at].(*any)) }
	if text(0) != "db1" || text(2) != "up" {
		log.Fatalf("%s is %s", text(0), text(2))
	}
}
