/* What a page shows of the server: fetched, kept while it is fetched again, and polled only while it is looked at. */
import {get} from "../app/api.js";
import {useEffect, useRef, useState} from "../app/html.js";

/** The pause between two requests of an idle page for what it shows. With the sidebar, which asks twice a minute
    for two things in turn, that is at most one request in 15 s. */
export const IDLE_MS = 30_000;
const RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 15_000;

/** The pause after a number of failures in a row, and after the last of them. */
export function retryPause(failures, error) {
  return Math.max(Math.min(LONGEST_RETRY_MS, RETRY_MS * 2 ** (failures - 1)), error.retryAfter * 1_000);
}

/** Do something, again after failures that may pass, while `isWanted`; return its result, or undefined if it failed.
    `onFailure` gets each error. */
export async function keepTrying(action, {isWanted, onFailure}) {
  for (let failures = 1; isWanted(); failures += 1) {
    try {
      return await action();
    } catch (error) {
      if (isWanted()) onFailure(error);
      if (!error.isTemporary) return undefined;
      await new Promise((resolve) => setTimeout(resolve, retryPause(failures, error)));
    }
  }
  return undefined;
}

/** Fetch a path of `/v1`; return `{data, error, isLoading, reload}`. `path` null fetches nothing.

    The data of before stays while the same path is fetched again, also if that fails. With `everyMs`, and after a
    failure that may pass, it is fetched again by itself, never while the page is hidden. `reload` can be called
    often: one request runs at a time. */
export function useResource(path, {everyMs = 0} = {}) {
  const [state, setState] = useState({path, data: undefined, error: null, isLoading: path !== null});
  const running = useRef(null);

  async function load() {
    const own = running.current;
    if (!own || own.path === null) return;
    if (own.isBusy) {
      own.isAskedAgain = true;
      return;
    }
    own.isBusy = true;
    clearTimeout(own.retry);
    try {
      const data = await get(own.path);
      own.failures = 0;
      if (running.current === own) setState({path: own.path, data, error: null, isLoading: false});
    } catch (error) {
      // somebody else may be signed in by now, who must not see what was shown before
      const isForbidden = error.status === 401 || error.status === 403;
      if (running.current === own) {
        if (error.isTemporary) own.retry = setTimeout(poll, retryPause(own.failures += 1, error));
        setState((old) => ({...old, path: own.path, data: isForbidden ? undefined : old.data, error, isLoading: false}));
      }
    }
    own.isBusy = false;
    if (own.isAskedAgain) {
      own.isAskedAgain = false;
      if (running.current === own) await load();
    }
  }

  function poll() {
    // while the page is hidden, the request waits until somebody looks
    if (!document.hidden) load();
  }

  useEffect(() => {
    running.current = {path, isBusy: false, isAskedAgain: false, failures: 0};
    setState({path, data: undefined, error: null, isLoading: path !== null});
    load();
    const timer = everyMs && path !== null ? setInterval(poll, everyMs) : 0;
    const onVisible = () => { if (everyMs || running.current.failures) poll(); };
    document.addEventListener("visibilitychange", onVisible);
    return () => {
      clearTimeout(running.current.retry);
      running.current = null;
      clearInterval(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [path, everyMs]);

  // between a change of the path and its effect, the data of the old path must not be shown for the new one
  return state.path === path ? {...state, reload: load} : {path, data: undefined, error: null, isLoading: true, reload: load};
}
