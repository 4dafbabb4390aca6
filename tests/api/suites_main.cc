// The main() of all suites that need nothing special before MPI_Init. --gtest_filter chooses among them.
#include "tests/api/mpi_suite.h"

int main(int argc, char** argv) { return lanyard::mpi_suite::run(&argc, &argv); }
