// Browsers start no Worker on a page opened from disk (file://); this one, for the site's search, runs its script in a hidden frame.
class FrameWorker {
  constructor(url) {
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    this.frame.srcdoc = `<script src="${url}"></script>`;
    this.started = new Promise((resolve) => {
      this.frame.onload = () => {
        const inside = this.frame.contentWindow;
        inside.postMessage = (data) => this.onmessage?.({ data });
        resolve(inside);
      };
    });
    document.body.append(this.frame);
  }

  postMessage(data) {
    this.started.then((inside) => inside.onmessage({ data }));
  }

  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") window.Worker = FrameWorker;
