/* Preact, its hooks, signals and templates in one place. */
import {h, render, Fragment} from "../vendor/preact.js";
import {useEffect, useLayoutEffect, useMemo, useRef, useState} from "../vendor/preact-hooks.js";
import {batch, computed, effect, signal} from "../vendor/signals-core.js";
import "../vendor/signals.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
export {
  h, render, Fragment, useEffect, useLayoutEffect, useMemo, useRef, useState, batch, computed, effect, signal,
};
