// lanyard model fit, lanyard model compare: compare the model with measurements.
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "nicsim/modelled/calibration.h"
#include "nicsim/modelled/machine.h"
#include "tools/lanyard/command.h"
namespace lanyard::tools {

namespace {

using modelled::Compared;
using modelled::Kind;
using modelled::Machine;
using modelled::Measurement;
using modelled::Memory;

struct Options {
  std::vector<std::string> files;
  std::string machine = "frontier";
  std::string out;
  bool rows = false;
  bool quick = false;
};

void declare(CLI::App& app, Options& o, const char* machine) {
  app.add_option("DATA", o.files, "CSV files of halos or ping-pongs, with the columns of the published ones")
      ->required();
  app.add_option("--machine", o.machine, machine)->type_name("NAME|FILE");
  app.add_flag("--rows", o.rows, "print every row, measured and modelled");
}

// Prints nothing if any file is wrong.
std::vector<Measurement> read(const Options& o) {
  std::vector<Measurement> rows;
  std::string told;
  for (const std::string& name : o.files) {
    std::ifstream file(name);
    if (!file)
      usage_error("cannot read " + name);
    const modelled::Measurements read = value_of(modelled::read_measurements(file, name));
    rows.insert(rows.end(), read.rows.begin(), read.rows.end());
    uint32_t trials = 0;
    for (const Measurement& row : read.rows)
      trials += row.trials;
    told += fmt::format("{}: {} rows, medians of {} trials; {} trials of other programs left out\n", name,
                        read.rows.size(), trials, read.others);
  }
  fmt::print("{}", told);
  return rows;
}

// For example "halo2d ready coarse 16384x16384, 8 ranks, 4 a node".
std::string describe(const Measurement& row) {
  const modelled::Workload& w = row.workload;
  const char* memory = w.memory == Memory::kFine ? "fine" : "coarse";
  const char* send = w.ready ? "ready" : "regular";
  if (w.kind == Kind::kPingPong)
    return fmt::format("{:8} {:7} {:6} {:>10} B {:22}", "pingpong", send, memory, w.bytes, "");
  return fmt::format("{:8} {:7} {:6} {:>12} {:>6} ranks {:>2} a node", "halo2d", send, memory,
                     fmt::format("{}x{}", w.cells[0], w.cells[1]), w.ranks, w.ranks_per_node);
}

void print_rows(std::vector<Compared> rows) {
  fmt::print("{:50} {:>12} {:>12} {:>8}\n", "row", "measured us", "modelled us", "error");
  for (const Compared& row : rows)
    fmt::print("{:50} {:>12.2f} {:>12.2f} {:>7.1f}%\n", describe(row.measured), row.measured.us, row.us,
               100 * row.error());
}

template <typename Choose>
void print_errors(const std::string& of, const std::vector<Compared>& rows, Choose choose) {
  std::vector<double> relative;
  const Compared* worst = nullptr;
  for (const Compared& row : rows) {
    if (!choose(row))
      continue;
    relative.push_back(row.error());
    if (worst == nullptr || std::abs(row.error()) > std::abs(worst->error()))
      worst = &row;
  }
  if (relative.empty())
    return;
  const modelled::Errors errors = modelled::errors_of(relative);
  fmt::print("{:22} {:>4} rows: mean error {:5.2f} %, largest {:5.2f} % ({})\n", of, errors.rows, 100 * errors.mean,
             100 * errors.most, describe(worst->measured));
}

void print_summary(const std::vector<Compared>& rows) {
  const auto halo = [](const Compared& row) { return row.measured.workload.kind != Kind::kPingPong; };
  print_errors("all", rows, [](const Compared&) { return true; });
  print_errors("pingpong", rows, [&](const Compared& row) { return !halo(row); });
  print_errors("halo", rows, halo);
  for (const bool ready : {true, false})
    print_errors(ready ? "halo, ready" : "halo, regular", rows,
                 [&](const Compared& row) { return halo(row) && row.measured.workload.ready == ready; });
  print_errors("halo, several ranks", rows,
               [&](const Compared& row) { return halo(row) && row.measured.workload.ranks > 1; });
}

void print_left_out(const std::vector<modelled::LeftOut>& left_out) {
  fmt::print("\ncross-validation: each rank count of halos by a fit of all other rows\n");
  std::vector<Compared> all;
  for (const modelled::LeftOut& each : left_out) {
    print_errors(fmt::format("  {} ranks", each.ranks), each.rows, [](const Compared&) { return true; });
    all.insert(all.end(), each.rows.begin(), each.rows.end());
  }
  print_errors("all, left out", all, [](const Compared&) { return true; });
  print_errors("  several ranks", all, [](const Compared& row) { return row.measured.workload.ranks > 1; });
}

void fit(const Options& o, const Machine& machine, const std::vector<Measurement>& rows) {
  const modelled::Calibration fitted = value_of(modelled::calibrate(rows, machine, "fitted"));
  fmt::print("\nfigures, with 95 % intervals\n");
  for (const modelled::Calibration::Fitted& each : fitted.figures)
    if (std::isfinite(each.margin))
      fmt::print("  {:22} {:>10.4f} +- {:.4f}\n", each.figure, each.value, each.margin);
    else
      fmt::print("  {:22} {:>10.4f}    unchanged: these measurements do not determine it\n", each.figure, each.value);
  fmt::print("\nmodelled against measured\n");
  if (o.rows)
    print_rows(fitted.rows);
  print_summary(fitted.rows);
  if (!o.quick)
    print_left_out(value_of(modelled::leave_rank_counts_out(rows, fitted)));
  if (o.out.empty())
    return;
  std::ofstream file(o.out);
  file << fitted.machine.to_text();
  if (!file.flush())
    trouble("cannot write " + o.out);
}

void compare(const Options& o, const Machine& machine, const std::vector<Measurement>& rows) {
  const std::vector<Compared> compared = value_of(modelled::compare(rows, machine));
  fmt::print("\nmodelled against measured, figures of {} as they are\n", o.machine);
  if (o.rows)
    print_rows(compared);
  print_summary(compared);
}

}  // namespace

void add_model_fit(CLI::App& model) {
  CLI::App* command = model.add_subcommand("fit", "fits a machine's figures to measurements");
  const auto options = std::make_shared<Options>();
  declare(*command, *options, "gives the start of the fit, and the figures that are not fitted (default: frontier)");
  command->add_option("--out", options->out, "write the fitted machine to a file")->type_name("FILE");
  command->add_flag("--no-cross-validation", options->quick, "skip cross-validation, which takes most of the time");
  command->callback([options] {
    const Machine machine = value_of(Machine::open(options->machine));
    fit(*options, machine, read(*options));
  });
}

void add_model_compare(CLI::App& model) {
  CLI::App* command = model.add_subcommand("compare", "compares a machine's figures with measurements, without a fit");
  const auto options = std::make_shared<Options>();
  declare(*command, *options, "the machine (default: frontier)");
  command->callback([options] {
    const Machine machine = value_of(Machine::open(options->machine));
    compare(*options, machine, read(*options));
  });
}

}  // namespace lanyard::tools
