# What an application in Ruby does, for as many connections and requests as it is told.
#
# Arguments: the library, connections, requests on each. A request reads a row, and changes it in a
# transaction, the way the library's own manual has it. Connections are opened one after the other.

TARGET = {
  host: ENV.fetch('SUITE_HOST'), port: ENV.fetch('SUITE_PORT').to_i,
  username: ENV.fetch('SUITE_USER'), password: ENV.fetch('SUITE_PASSWORD'),
  database: 'application'
}.freeze

def mysql2(connections, requests)
  require 'mysql2'
  connections.times do
    client = Mysql2::Client.new(TARGET)
    read = client.prepare('SELECT v FROM item WHERE id = ?')
    requests.times do
      raise 'the row is not there' unless client.query('SELECT v FROM item WHERE id = 1').count == 1
      raise 'the row is not there' unless read.execute(1).count == 1

      client.query('BEGIN')
      client.query('UPDATE item SET v = v + 1 WHERE id = 1')
      client.query('COMMIT')
    end
    read.close
    client.close
  end
end

def rails(connections, requests)
  require 'logger'
  require 'active_record'
  item = Class.new(ActiveRecord::Base) { self.table_name = 'item' }
  connections.times do
    # As `rails new --database=mysql` has it.
    ActiveRecord::Base.establish_connection(TARGET.merge(adapter: 'mysql2', encoding: 'utf8mb4', pool: 1))
    requests.times do
      item.find(1)
      item.transaction do
        one = item.find(1)
        one.update!(v: one.v + 1)
      end
    end
    ActiveRecord::Base.connection_handler.clear_all_connections!
  end
end

name, connections, requests = ARGV
{ 'mysql2' => method(:mysql2), 'rails' => method(:rails) }.fetch(name).call(connections.to_i, requests.to_i)
