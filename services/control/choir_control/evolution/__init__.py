"""Carries out what a human approved: settings, skills, descriptions of tools, merges (spec 8.10, 20).

Never decides, and never does anything else than what was shown: each step compares again. What is to be done
is written down before it is done, so that a crash leaves it not done or done, and the next start finds out
which.
Ladder: workshop > ask | carry_out > repo_change | new_files > landing > benches > workbench; config_change >
config_file | merge_patch; all above carrier; store.
"""
