// What a benchmark has found, as rows of named values: tidy CSV, where every row has every fact, or JSON, where what
// all rows have in common stands once.
#ifndef LANYARD_BENCH_RESULTS_H_
#define LANYARD_BENCH_RESULTS_H_

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/commit.h"
#include "bench/format.h"
#include "bench/mpi_process.h"
#include "bench/streams.h"

namespace lanyard::bench {

using Record = nlohmann::ordered_json;  // name to text, number, truth or nothing

class Results {
 public:
  Results(const std::string& benchmark, int ranks, const Place& place)
      : facts_{{"benchmark", benchmark}, {"commit", commit()},     {"mpi", mpi_library()},
               {"ranks", ranks},         {"memory", place.memory}, {"stream", place.stream},
               {"device", place.device}, {"driver", place.driver}, {"runtime", place.runtime}} {}

  // A fact of all rows, those before it included.
  void set(const std::string& name, const Record& value) { facts_[name] = value; }
  // A row's own values come before a fact of the same name.
  void add(const Record& row) { rows_.push_back(row); }

  // To stdout. Columns are all names, in the order in which rows have them; what a row lacks is empty.
  void print_csv() const {
    Record names = facts_;
    for (const Record& row : rows_)
      names.update(row);
    for (const auto& name : names.items())
      name.value() = name.key();
    print_line(names, names);
    for (const Record& row : rows_) {
      Record whole = facts_;
      whole.update(row);
      print_line(names, whole);
    }
  }
  // `more`: what is no table.
  void print_json(const Record& more) const {
    Record out = facts_;
    out["runs"] = rows_;
    out.update(more);
    std::printf("%s\n", out.dump(2).c_str());
  }

 private:
  static void print_line(const Record& names, const Record& row) {
    std::string line;
    for (const auto& name : names.items()) {
      const auto cell = row.find(name.key());
      if (cell != row.end() && !cell->is_null())
        line += csv_field(cell->is_string() ? cell->get<std::string>() : cell->dump());
      line += ',';
    }
    line.back() = '\n';
    std::fputs(line.c_str(), stdout);
  }

  Record facts_;
  std::vector<Record> rows_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_RESULTS_H_
