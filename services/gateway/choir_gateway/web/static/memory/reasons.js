/* Why memories were brought up: the hits of the searches behind them, from their receipts. */
import {get} from "../app/api.js";
import {useEffect, useState} from "../app/html.js";
import {keepTrying} from "../cockpit/resource.js";
import {agentPath} from "./paths.js";

/** Return `{hits, isLoading, isMissing}`; receipts are deleted after some time, which is `isMissing`. */
export function useReasons(agent, receipts) {
  const [state, setState] = useState({hits: new Map(), isLoading: receipts.length > 0, isMissing: false});
  useEffect(() => {
    let isCurrent = true;
    (async () => {
      const hits = new Map();
      let isMissing = false;
      for (const id of receipts) {
        const stored = await keepTrying(() => get(agentPath(agent, "memory", "receipts", id)), {
          isWanted: () => isCurrent,
          onFailure: (error) => { if (!error.isTemporary) isMissing = true; },
        });
        for (const hit of stored?.receipt.hits ?? []) if (!hits.has(hit.id)) hits.set(hit.id, hit);
      }
      if (isCurrent) setState({hits, isLoading: false, isMissing});
    })();
    return () => { isCurrent = false; };
  }, [receipts.join(" ")]);
  return state;
}
