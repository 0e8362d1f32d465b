// What an application in Go does, for as many connections and requests as it is told.
//
// Arguments: connections, requests on each. A request reads a row, and changes it in a transaction, the
// way database/sql has it. Connections are opened one after the other.
package main

import (
	"database/sql"
	"log"
	"os"
	"strconv"

	"github.com/go-sql-driver/mysql"
)

func main() {
	connections, requests := number(os.Args[1]), number(os.Args[2])
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", os.Getenv("SUITE_HOST")+":"+os.Getenv("SUITE_PORT")
	config.User, config.Passwd = os.Getenv("SUITE_USER"), os.Getenv("SUITE_PASSWORD")
	config.DBName = "application"
	for i := 0; i < connections; i++ {
		db, err := sql.Open("mysql", config.FormatDSN())
		check(err)
		db.SetMaxOpenConns(1)
		for j := 0; j < requests; j++ {
			request(db)
		}
		check(db.Close())
	}
}

func request(db *sql.DB) {
	var v int
	check(db.QueryRow("SELECT v FROM item WHERE id = ?", 1).Scan(&v))
	tx, err := db.Begin()
	check(err)
	_, err = tx.Exec("UPDATE item SET v = v + 1 WHERE id = ?", 1)
	check(err)
	check(tx.Commit())
}

func number(text string) int {
	number, err := strconv.Atoi(text)
	check(err)
	return number
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
