const files = import.meta.glob<Record<string, unknown>>(["./en/*.json", "!./en/{accuracy,checks,compare,experts,hardware,models,newStudy,rl,rules,scripts,sweep}.json"], { eager: true, import: "default" });

const namespaces: Record<string, Record<string, unknown>> = {};
for (const [path, strings] of Object.entries(files)) namespaces[path.replace(/^.*\/|\.json$/g, "")] = strings;

export default namespaces;
