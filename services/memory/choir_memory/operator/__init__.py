"""What an operator sees and does of an agent's memory: look, write, erase, carry away, bring back.

Everything here is audited as the operator's, before the answer leaves. Reads go by the admin path, which can
write nothing; writes are under the agent's role, as the agent's own are. Never decides who is an operator:
control does.

    look | change | carry       lists and single documents | put and erase | export and import
    look_store | carry_store    the statements
"""
