import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "./theme/fonts.css";
import "./theme/base.css";

import { createRoot } from "react-dom/client";

import { App } from "./App";
import { startTranslations } from "./i18n";
import { followPrinting } from "./theme/printing";

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
await startTranslations();
followPrinting();
createRoot(root).render(<App />);
