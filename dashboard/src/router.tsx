import { createBrowserRouter, Navigate, type RouteObject } from "react-router";

import { withStrings } from "./i18n";
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

/** A page with strings that the pages of studies do not show. */
const rarer = (path: string, load: Page) => route(path, () => withStrings("rarer", load));

export const router = createBrowserRouter([
  {
    element: <Shell />,
    errorElement: <PageError />,
    hydrateFallbackElement: <></>,
    children: [
      { index: true, element: <Navigate to="/studies" replace /> },
      route("studies", () => import("./pages/studies")),
      rarer("studies/new", () => import("./pages/newStudy")),
      route("studies/:studyId", () => import("./pages/study")),
      route("studies/:studyId/plans/:planId", () => import("./pages/plan")),
      rarer("sweep", () => import("./pages/sweep")),
      rarer("rl", () => import("./pages/rl")),
      rarer("scripts", () => import("./pages/scripts")),
      rarer("experts", () => import("./pages/experts")),
      rarer("compare", () => import("./pages/compare")),
      rarer("checks", () => import("./pages/checks")),
      rarer("checks/:checkId", () => import("./pages/checks/Check")),
      rarer("accuracy", () => import("./pages/accuracy")),
      rarer("hardware", () => import("./pages/hardware")),
      rarer("hardware/:name", () => import("./pages/hardware/Profile")),
      rarer("models", () => import("./pages/models")),
      rarer("models/:name", () => import("./pages/models/Preset")),
      { path: "*", element: <NoSuchPage /> },
    ],
  },
]);
