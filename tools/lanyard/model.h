// lanyard model's parts: the subcommand itself and those below it.
#ifndef LANYARD_TOOLS_LANYARD_MODEL_H_
#define LANYARD_TOOLS_LANYARD_MODEL_H_

#include <CLI/CLI.hpp>

namespace lanyard::tools {

// Each declares a subcommand of `lanyard model`.
void add_model_fit(CLI::App& model, int& status);
void add_model_compare(CLI::App& model, int& status);

}  // namespace lanyard::tools

#endif  // LANYARD_TOOLS_LANYARD_MODEL_H_
