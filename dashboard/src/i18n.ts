import i18next from "i18next";
import { initReactI18next } from "react-i18next";

export const LANGUAGES = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;

/** One chunk a language. A page's strings are in locales/<language>/<page>.json, and `useTranslation("<page>")` reads them. */
const catalogues = { en: () => import("./locales/en"), zh: () => import("./locales/zh") } as const;
const STORED = "meshplan-language";
const HTML_LANG = { en: "en", zh: "zh-CN" } as const;

function isLanguage(text: string | null): text is Language {
  return text !== null && text in LANGUAGES;
}

/** The address (`?lang=zh`) before the reader's choice before the browser's language. */
function preferred(): Language {
  const asked = new URLSearchParams(window.location.search).get("lang");
  if (isLanguage(asked)) return asked;
  const chosen = localStorage.getItem(STORED);
  if (isLanguage(chosen)) return chosen;
  return navigator.languages.some((name) => name.toLowerCase().startsWith("zh")) ? "zh" : "en";
}

async function load(language: Language): Promise<void> {
  if (i18next.hasResourceBundle(language, "common")) return;
  const { default: namespaces } = await catalogues[language]();
  for (const [name, strings] of Object.entries(namespaces)) i18next.addResourceBundle(language, name, strings);
}

export async function startTranslations(): Promise<void> {
  const language = preferred();
  await i18next.use(initReactI18next).init({
    lng: language,
    fallbackLng: false,
    defaultNS: "common",
    resources: {},
    interpolation: { escapeValue: false }, // React escapes
    saveMissing: true,
    missingKeyHandler: (_languages, namespace, key) => console.error(`no string ${namespace}:${key} in ${i18next.language}`),
    react: { useSuspense: false },
  });
  await load(language);
  document.documentElement.lang = HTML_LANG[language];
}

export async function setLanguage(language: Language): Promise<void> {
  await load(language);
  localStorage.setItem(STORED, language);
  document.documentElement.lang = HTML_LANG[language];
  await i18next.changeLanguage(language);
}
