/* What a page shows of the server: fetched, kept while it is fetched again, and polled only while it is looked at. */
import {get} from "../app/api.js";
import {useEffect, useRef, useState} from "../app/html.js";

/** The shortest pause between two requests of an idle page. */
export const IDLE_MS = 15_000;

/** Fetch a path of `/v1`; return `{data, error, isLoading, reload}`. `path` null fetches nothing.

    The data of before stays while the same path is fetched again, also if that fails. With `everyMs` it is fetched
    again by itself, never while the page is hidden. `reload` can be called often: one request runs at a time. */
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
    try {
      const data = await get(own.path);
      if (running.current === own) setState({path: own.path, data, error: null, isLoading: false});
    } catch (error) {
      // somebody else may be signed in by now, who must not see what was shown before
      const isForbidden = error.status === 401 || error.status === 403;
      if (running.current === own) {
        setState((old) => ({...old, path: own.path, data: isForbidden ? undefined : old.data, error, isLoading: false}));
      }
    }
    own.isBusy = false;
    if (own.isAskedAgain) {
      own.isAskedAgain = false;
      if (running.current === own) await load();
    }
  }

  useEffect(() => {
    running.current = {path, isBusy: false, isAskedAgain: false};
    setState({path, data: undefined, error: null, isLoading: path !== null});
    load();
    const timer = everyMs && path !== null ? setInterval(() => { if (!document.hidden) load(); }, everyMs) : 0;
    const onVisible = () => { if (everyMs && !document.hidden) load(); };
    document.addEventListener("visibilitychange", onVisible);
    return () => {
      running.current = null;
      clearInterval(timer);
      document.removeEventListener("visibilitychange", onVisible);
    };
  }, [path, everyMs]);

  // between a change of the path and its effect, the data of the old path must not be shown for the new one
  return state.path === path ? {...state, reload: load} : {path, data: undefined, error: null, isLoading: true, reload: load};
}
