// `headrace generate` inside a program that has already started MPI.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/environment.h"

namespace headrace {

/// Starts MPI as a job wants it: waiting ranks give way to computing ones.
std::unique_ptr<Environment> start_mpi();

/// Reads the arguments behind "generate" and runs the job; returns the exit code. What goes wrong
/// on the way ends the process from the terminate handler. Collective over the world.
int generate(Environment& environment, const std::vector<std::string>& args) noexcept;

}  // namespace headrace
