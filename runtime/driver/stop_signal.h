// Signals that ask a job to stop: SIGTERM, SIGINT, SIGUSR1, SIGUSR2. They set a flag that the job's
// loop looks at; the job then drains and ends resumable.
#pragma once

namespace headrace {

/// Installs the handlers for the whole process. Once, before the job's loop.
void install_stop_signals();

/// The signal that came, or 0.
int stop_signal();

}  // namespace headrace
