#include "runtime/driver/stop_signal.h"

#include <array>
#include <csignal>

namespace headrace {
namespace {

// The one mutable global of the program: a handler can reach nothing else.
volatile std::sig_atomic_t received_signal = 0;

}  // namespace

void install_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = [](int signal) { received_signal = signal; };
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : std::array{SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) {
    sigaction(signal, &action, nullptr);
  }
}

int stop_signal() {
  return received_signal;
}

}  // namespace headrace
