#include "launch/guard.h"

#include <mpi.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <stdexcept>

#include "launch/exit_codes.h"

namespace headrace {
namespace {

// Reached from the terminate handler, which takes no arguments.
std::string& guarded_name() {
  static std::string name;
  return name;
}

struct Cause {
  std::string text;
  int exit_code = kExitUnexpected;
};

Cause current_cause() {
  const std::exception_ptr error = std::current_exception();
  if (!error) return {.text = "ended without an exception"};
  try {
    std::rethrow_exception(error);
  } catch (const std::invalid_argument& e) {
    return {.text = e.what(), .exit_code = kExitUsage};
  } catch (const std::bad_alloc&) {
    return {.text = "out of memory: lower --kv-cache-memory-bytes or use more ranks"};
  } catch (const std::exception& e) {
    return {.text = e.what()};
  } catch (...) {
    return {.text = "an exception of unknown type"};
  }
}

[[noreturn]] void end_job() {
  const Cause cause = current_cause();
  const std::string message = "headrace: " + guarded_name() + ": " + cause.text + "\n";
  // One write, so that lines of several ranks do not mix.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message.data(), message.size());
  MPI_Abort(MPI_COMM_WORLD, cause.exit_code);
  std::_Exit(cause.exit_code);
}

}  // namespace

void install_guard(const std::string& name) {
  guarded_name() = name;
  std::set_terminate(end_job);
}

}  // namespace headrace
