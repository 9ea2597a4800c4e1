import { createBrowserRouter, Navigate, type RouteObject } from "react-router";

import { withRarerStrings } from "./i18n";
import { Shell } from "./shell/Shell";
import { NoSuchPage } from "./shell/NoSuchPage";
import { NotLoaded, PageError } from "./shell/PageError";

type Page = () => Promise<{ Page: React.ComponentType }>;

/** A page is a folder of pages/ whose index exports `Page`; it is loaded when somebody goes there. */
function route(path: string, load: Page): RouteObject {
  // The router shows nothing at all for a page that did not come, so the page is then what says so.
  const lazy = async () => ({ Component: await load().then(({ Page }) => Page, () => NotLoaded) });
  return { path, lazy, errorElement: <PageError /> };
}

export const router = createBrowserRouter([
  {
    element: <Shell />,
    errorElement: <PageError />,
    hydrateFallbackElement: <></>,
    children: [
      { index: true, element: <Navigate to="/studies" replace /> },
      route("studies", () => import("./pages/studies")),
      route("studies/new", () => withRarerStrings(() => import("./pages/newStudy"))),
      route("studies/:studyId", () => import("./pages/study")),
      route("studies/:studyId/plans/:planId", () => import("./pages/plan")),
      route("sweep", () => import("./pages/sweep")),
      route("rl", () => import("./pages/rl")),
      route("scripts", () => withRarerStrings(() => import("./pages/scripts"))),
      route("experts", () => withRarerStrings(() => import("./pages/experts"))),
      route("compare", () => import("./pages/compare")),
      route("checks", () => withRarerStrings(() => import("./pages/checks"))),
      route("checks/:checkId", () => withRarerStrings(() => import("./pages/checks/Check"))),
      route("accuracy", () => withRarerStrings(() => import("./pages/accuracy"))),
      route("hardware", () => import("./pages/hardware")),
      route("hardware/:name", () => import("./pages/hardware/Profile")),
      route("models", () => import("./pages/models")),
      route("models/:name", () => import("./pages/models/Preset")),
      { path: "*", element: <NoSuchPage /> },
    ],
  },
]);
