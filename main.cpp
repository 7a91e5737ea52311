// From the command line to a verb (cli/verbs.h), and from what it throws to an exit code. Each verb
// calls the functions of the folders in the order of the flow in docs/developing.md.
#include <new>
#include <string>

#include "cli/command_line.h"
#include "cli/startup.h"
#include "cli/verbs.h"
#include "model/base/errors.h"

using namespace stepcast;

namespace {

int fail(int code, const std::string& message) {
    say_on_stderr(message);
    return code;
}

}  // namespace

int main(int argc, char** argv) {
    open_standard_files();
    end_on_signals();
    close_blas_threads();
    keep_freed_memory();
    try {
        const int code = run_command_line(
            argc, argv,
            {simulate_verb(), sweep_verb(), execute_verb(), calibrate_verb(), compare_verb(),
             diagnose_verb(), import_verb(), list_verb(), show_verb()});
        finish_output();
        return code != 0 ? code : exit_code_of_stop();
    } catch (const ConfigError& error) {
        return fail(1, error.what());
    } catch (const DeviceError& error) {
        return fail(2, error.what());
    } catch (const std::bad_alloc&) {
        return fail(1, "out of memory; expected a machine with more of it, or a smaller question");
    } catch (const std::exception& error) {
        return fail(3, std::string("a bug of stepcast: ") + error.what());
    }
}
