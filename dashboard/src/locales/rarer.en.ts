const files = import.meta.glob<Record<string, unknown>>(["./en/accuracy.json", "./en/checks.json", "./en/experts.json", "./en/labels.json", "./en/scripts.json"], { eager: true, import: "default" });

const namespaces: Record<string, Record<string, unknown>> = {};
for (const [path, strings] of Object.entries(files)) namespaces[path.replace(/^.*\/|\.json$/g, "")] = strings;

export default namespaces;
