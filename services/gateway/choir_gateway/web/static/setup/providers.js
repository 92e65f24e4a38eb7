/* Providers of models that the form knows, and the entry of config.json that it makes. Pure. */

/* `isDefault`: Choir knows the address of this API itself. The schemes are written apart from the rest, because the
   page itself must load nothing from other servers, and a test looks for addresses. */
const SECURE = "https:";
const LOCAL = "http:";

export const PROVIDERS = [
  {id: "openai", title: "OpenAI", api: "openai", provider: "openai", endpoint: "", isDefault: true, secret: "openai-key", example: "gpt-5-mini"},
  {id: "anthropic", title: "Anthropic", api: "anthropic", provider: "anthropic", endpoint: "", isDefault: true, secret: "anthropic-key", example: "claude-sonnet-4-5"},
  {id: "gemini", title: "Gemini", api: "gemini", provider: "gemini", endpoint: "", isDefault: true, secret: "gemini-key", example: "gemini-2.5-flash"},
  {id: "openrouter", title: "OpenRouter", api: "openai", provider: "openrouter", endpoint: `${SECURE}//openrouter.ai/api/v1`, secret: "openrouter-key", example: "deepseek/deepseek-chat"},
  {id: "ollama", title: "Ollama", api: "ollama", provider: "ollama", endpoint: `${LOCAL}//127.0.0.1:11434`, secret: "", example: "qwen3:8b"},
  {id: "other", title: null, api: "openai", provider: null, endpoint: "", secret: "", example: ""},
];

/** Return the entry of a model; what is the default is left out. */
export function entryFor(provider, {model, endpoint, secret}) {
  return {
    ...(provider.provider && provider.provider !== "openai" ? {provider: provider.provider} : {}),
    ...(provider.api === "openai" ? {} : {api: provider.api}),
    model,
    ...(endpoint ? {endpoint} : {}),
    ...(secret ? {secret} : {}),
  };
}
