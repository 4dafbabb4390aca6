// Calibration: reading measurements, fitting the machine's figures to them, and the
// numerical methods.
#include "nicsim/modelled/calibration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace lanyard::modelled {
namespace {

constexpr const char* kHaloHead = "nodes,ntasks,backend,solver_time,system,size,memory_type,send_type,cycles\n";
constexpr const char* kPingPongHead = "GPU,Backend,Buffering,Iters,Items,Time\n";

Result<Measurements> read(const std::string& text) {
  std::istringstream stream(text);
  return read_measurements(stream, "x.csv");
}

TEST(Measurements, TakesMediansOfTrialsAndLeavesOthersOut) {
  const Result<Measurements> halos =
      read(std::string(kHaloHead) +
           "2,4,MPIAdvance-CXI-Double-Buffering2,0.3,frontier,64,coarse,Ready Send,1000\n"
           "2,4,MPIAdvance-CXI-Double-Buffering2,0.1,frontier,64,coarse,Ready Send,1000\n"
           "2,4,MPIAdvance-CXI-Double-Buffering2,9,frontier,64,coarse,Ready Send,1000\n"
           "2,4,MPIAdvance-CXI-Single-Buffering2,0.5,frontier,64,fine,Standard,1000\n"
           "2,4,Cray-MPICH-CXI-GPU-Enabled,0.5,frontier,64,coarse,Standard,1000\n");
  ASSERT_TRUE(halos.ok()) << halos.status().message();
  ASSERT_EQ(halos.value().rows.size(), 2u);
  EXPECT_EQ(halos.value().others, 1u);
  const Measurement& ready = halos.value().rows[0];
  EXPECT_TRUE(ready.workload.ready);
  EXPECT_DOUBLE_EQ(ready.us, 300);
  EXPECT_EQ(ready.trials, 3u);
  EXPECT_EQ(ready.workload.ranks, 8u);
  EXPECT_EQ(ready.workload.ranks_per_node, 4u);
  EXPECT_EQ(ready.workload.cells[1], 64u);
  EXPECT_EQ(halos.value().rows[1].workload.memory, Memory::kFine);

  const Result<Measurements> trips = read(std::string(kPingPongHead) +
                                          "MI250,cxi-fine,sb,1000,8,0.02\n"
                                          "MI250,cxi-fine,sb,1000,8,0.04\n"
                                          "MI250,mpi,sb,1000,8,0.04\n");
  ASSERT_TRUE(trips.ok());
  ASSERT_EQ(trips.value().rows.size(), 1u);
  EXPECT_DOUBLE_EQ(trips.value().rows[0].us, 30);
  EXPECT_EQ(trips.value().rows[0].workload.bytes, 32u);
}

TEST(Measurements, NamesTheLineOfAnError) {
  const std::pair<std::string, const char*> wrong[] = {
      {"", "x.csv: the file is empty"},
      {"a,b\n1,2\n",
       "x.csv:1: the header has neither the columns of halos (nodes, ntasks, ...) nor those of ping-pongs (Backend, "
       "Buffering, ...)"},
      {kPingPongHead, "x.csv: the file has no trial of a stream-triggered program"},
      {std::string(kPingPongHead) + "MI250,cxi-fine,sb,1000,8\n",
       "x.csv:2: the line has fewer or more fields than the header"},
      {std::string(kPingPongHead) + "MI250,cxi-fine,sb,1000,8,-1\n",
       "x.csv:2: a number is missing, not positive, or too large"},
      {std::string(kPingPongHead) + "MI250,cxi-fine,sb,0,8,1\n",
       "x.csv:2: a number is missing, not positive, or too large"},
      {std::string(kPingPongHead) + "MI250,cxi-fine,sb,1,8,1e400\n",
       "x.csv:2: a number is missing, not positive, or too large"},
  };
  for (const auto& [text, what] : wrong) {
    const Result<Measurements> measurements = read(text);
    ASSERT_FALSE(measurements.ok()) << text;
    EXPECT_EQ(measurements.status().message(), what);
  }
}

TEST(LeastSquares, FindsALineAndItsMargins) {
  // y = 2 + 3 x with errors of +-0.1 that cancel: compared with simple regression in closed form.
  const std::vector<double> x = {0, 1, 2, 3}, y = {2.1, 4.9, 7.9, 11.1};
  LeastSquares problem;
  problem.weights = {1, 1, 1, 1};
  problem.residuals = [&](const std::vector<double>& values) {
    std::vector<double> residuals;
    for (size_t i = 0; i < x.size(); ++i)
      residuals.push_back(values[0] + values[1] * x[i] - y[i]);
    return residuals;
  };
  const LeastSquares::Fit fit = problem.fit({1, 1});
  EXPECT_NEAR(fit.values[0], 2, 1e-3);
  EXPECT_NEAR(fit.values[1], 3, 1e-3);
  // The residuals' squares sum to 0.04, with 2 degrees of freedom; sum (x - 1.5)^2 = 5; t = 4.3027.
  EXPECT_NEAR(fit.margins[1], 4.3027 * std::sqrt(0.02 / 5), 1e-3);
  EXPECT_NEAR(fit.margins[0], 4.3027 * std::sqrt(0.02 * (0.25 + 2.25 / 5)), 1e-3);
}

// Takes the model's own results as measurements. The fit must restore the changed figures.
std::vector<Measurement> measured_by(const Machine& machine) {
  std::vector<Measurement> rows;
  for (const bool ready : {true, false})
    for (const Memory memory : {Memory::kCoarse, Memory::kFine}) {
      for (const uint64_t bytes : {8u, 512u, 8192u, 1u << 20, 1u << 26})
        rows.push_back({{.kind = Kind::kPingPong, .ranks = 2, .bytes = bytes, .ready = ready, .memory = memory}, 0, 5});
      for (const uint32_t ranks : {4u, 64u, 512u, 1024u, 4096u})
        for (const uint32_t per_node : {1u, 4u, 8u})
          if (per_node <= ranks)
            rows.push_back({{.ranks = ranks,
                             .ranks_per_node = per_node,
                             .cells = {16384, 16384, 1},
                             .ready = ready,
                             .memory = memory},
                            0,
                            5});
    }
  for (Measurement& row : rows)
    row.us = modelled_us(row.workload, machine).value();
  return rows;
}

TEST(Calibration, FindsTheFiguresThatMadeTheMeasurements) {
  const Machine truth = Machine::open("frontier").value();
  Machine start = truth;
  const std::pair<const char*, double> changed[] = {
      {"kernel.cell", 1.2}, {"cpu.post", 0.85}, {"kernel.halo", 1.1}, {"nic.byte", 0.9}, {"stream.ring", 1.3}};
  for (const auto& [figure, factor] : changed)
    start.set(figure, truth[figure] * factor, "a test");
  const Result<Calibration> fitted = calibrate(measured_by(truth), start, "fitted");
  ASSERT_TRUE(fitted.ok()) << fitted.status().message();
  std::vector<double> relative;
  for (const Compared& row : fitted.value().rows)
    relative.push_back(row.error());
  EXPECT_LT(errors_of(relative).most, 0.002);
  for (const auto& [figure, factor] : changed)
    EXPECT_NEAR(fitted.value().machine[figure] / truth[figure], 1, 0.02) << figure;
}

TEST(Calibration, ErrorsAreRelativeToTheMeasurement) {
  const Errors errors = errors_of({0.01, -0.05, 0.03});
  EXPECT_DOUBLE_EQ(errors.mean, 0.03);
  EXPECT_DOUBLE_EQ(errors.most, 0.05);
  EXPECT_EQ(errors.rows, 3u);
}

}  // namespace
}  // namespace lanyard::modelled
