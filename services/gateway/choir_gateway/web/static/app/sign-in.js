/* The sign-in page: how to get a link, and a form for the operator token. */
import {signIn} from "./api.js";
import {html, useState} from "./html.js";
import {t} from "./texts.js";

export function SignInPage({problem}) {
  const [isBusy, setBusy] = useState(false);

  async function submit(event) {
    event.preventDefault();
    const token = new FormData(event.target).get("token").trim();
    if (!token) return;
    setBusy(true);
    problem.value = "";
    try {
      await signIn({token});
    } catch (error) {
      problem.value = error.message;
    }
    setBusy(false);
  }

  return html`<main class="sign-in">
    <div class="sign-in-card">
      <div class="brand"><${Logo} /><h1>Choir</h1></div>
      <p>${t("signin.link")}</p>
      <pre class="command"><code>choirctl web</code></pre>
      <p class="or"><span>${t("signin.or")}</span></p>
      <form onSubmit=${submit}>
        <label for="token">${t("signin.token")}</label>
        <input id="token" name="token" type="password" autocomplete="current-password" required spellcheck=${false} />
        <button class="primary" disabled=${isBusy}>${t("signin.submit")}</button>
      </form>
      <p class="problem" role="alert">${problem.value}</p>
    </div>
  </main>`;
}

export function Logo() {
  return html`<svg class="logo" viewBox="0 0 64 64" aria-hidden="true"><rect width="64" height="64" rx="15" /><path
    d="M18 27v10M27.5 20v24M37 15v34M46.5 24v16" /></svg>`;
}
