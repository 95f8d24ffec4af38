// `headrace generate` inside a program that has already started MPI.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/environment.h"

namespace headrace {

/// Starts MPI as a job wants it: waiting ranks give way to computing ones.
std::unique_ptr<Environment> start_mpi();

/// Reads the arguments behind "generate" and runs the job; returns the exit code. To be called
/// where nothing catches: what goes wrong on the way then ends the whole job from the terminate
/// handler, at the throw, before any destructor runs. Collective over the world.
int generate(Environment& environment, const std::vector<std::string>& args);

}  // namespace headrace
